"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const body = byId("rows");
  // Details are for the screen; on paper everything is shown.
  addEventListener("beforeprint", () => document.querySelectorAll("details:not([open])").forEach((one) => { one.open = true; one.dataset.shut = "1"; }));
  addEventListener("afterprint", () => document.querySelectorAll("details[data-shut]").forEach((one) => { one.open = false; delete one.dataset.shut; }));
  if (!body) return;

  const facts = JSON.parse(byId("page-facts").textContent);
  const data = JSON.parse(byId("finding-data").textContent);
  const STEP = 100;
  const sentence = (template, numbers) => { let at = 0; return data.sentences[template].replace(/\ue000/g, () => numbers[at++]); };
  const rows = data.rows.map((row, place) => ({
    place,
    severity: data.severities[row[0]], verdict: data.verdicts[row[1]], verdictRank: row[1] + 100 * row[0],
    cluster: data.clusters[row[2]][0], label: facts.several ? data.clusters[row[2]][1] : "",
    name: data.topics[row[3]] + "-" + row[4], topic: data.topics[row[3]], partition: row[4],
    leader: row[5], follower: row[6], parts: row[7], cut: row[8], restart: row[9], records: row[10], committed: row[11],
    status: data.statuses[row[12]], template: row[13], numbers: row[14], mark: row[15] && row[5] >= 0 ? "?" : "",
  }));
  const clustersOf = new Map();
  for (const row of rows) {
    if (!clustersOf.has(row.name)) clustersOf.set(row.name, new Set());
    clustersOf.get(row.name).add(row.cluster);
  }
  const anchor = (row) => (clustersOf.get(row.name).size > 1 ? row.label + "/" : "") + row.name;
  const reason = (row) => sentence(row.template, row.numbers);

  const inputs = Object.fromEntries(["text", "verdict", "severity", "cluster", "broker", "status"].map((key) => [key, byId("filter-" + key)]));
  const offer = (input, values, names) => {
    input.append(new Option("all", ""), ...values.map((value, place) => new Option(names ? names[place] : value.replaceAll("_", " "), value)));
    input.closest("p").hidden = values.length < 2;
  };
  const used = (key, order) => order.filter((value) => rows.some((row) => row[key] === value));
  offer(inputs.verdict, used("verdict", data.verdicts));
  offer(inputs.severity, used("severity", data.severities));
  offer(inputs.cluster, data.clusters.map((one) => one[0]), data.clusters.map((one) => one[1]));
  offer(inputs.status, used("status", data.statuses.filter(Boolean)));
  const brokers = [...new Set(rows.flatMap((row) => [row.leader, row.follower]))].filter((id) => id >= 0).sort((a, b) => a - b);
  offer(inputs.broker, brokers.map(String));

  let shown = STEP, sort = null, opened = null, found = rows;
  const keyOf = {
    verdict: (row) => row.verdictRank, partition: (row) => row.topic, pair: (row) => row.leader,
    parts: (row) => row.parts, cut: (row) => row.restart ?? row.cut, records: (row) => row.records,
    committed: (row) => row.committed, status: (row) => row.status,
  };
  const compare = (a, b) => (a === b ? 0 : a === null ? 1 : b === null ? -1 : a < b ? -1 : 1);
  const second = { partition: (row) => row.partition, pair: (row) => row.follower };
  const inOrder = (list) => {
    if (!sort) return list;
    const key = keyOf[sort.key], then = second[sort.key] ?? ((row) => row.place), sign = sort.up ? 1 : -1;
    return [...list].sort((a, b) => {
      const x = key(a), y = key(b);
      if (x === null || y === null) return compare(x, y) || a.place - b.place;
      return sign * compare(x, y) || sign * compare(then(a), then(b)) || a.place - b.place;
    });
  };
  const matches = () => {
    const text = inputs.text.value.trim().toLowerCase(), broker = inputs.broker.value;
    return rows.filter((row) =>
      ["verdict", "severity", "cluster", "status"].every((key) => !inputs[key].value || row[key] === inputs[key].value)
      && (!broker || String(row.leader) === broker || String(row.follower) === broker)
      && (!text || (row.label + "/" + row.name).toLowerCase().includes(text) || reason(row).toLowerCase().includes(text)));
  };

  const make = (tag, text, css, name) => {
    const made = document.createElement(tag);
    if (text !== undefined && text !== null) made.textContent = text;
    if (css) made.className = css;
    if (name) made.dataset.name = name;
    return made;
  };
  const grouped = (value) => (value === null ? "-" : value.toLocaleString("en-US"));
  const quoted = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : "'" + word.replaceAll("'", "'\"'\"'") + "'");
  const command = (row) => facts.explain + " --partition " + quoted(row.name) + (facts.several ? " --cluster " + quoted(row.cluster) : "");
  const hasPicture = (row) => byId(anchor(row))?.classList.contains("partition") ?? false;
  const line = (row) => {
    const tr = make("tr");
    const verdict = make("td", null, "", "Verdict");
    verdict.append(make("span", row.verdict.replaceAll("_", " "), "badge " + row.severity), make("span", ", " + row.severity, "unseen"));
    const name = make("th", null, "", "Partition");
    name.scope = "row";
    const link = make("a", row.name);
    link.href = "#" + anchor(row).split("/").map(encodeURIComponent).join("/");
    name.append(link);
    if (row.label) name.append(" ", make("span", row.label, "quiet"));
    const pair = row.leader < 0 && row.follower < 0 ? "no leader" : row.follower < 0 ? row.leader + " (leader)" : (row.leader < 0 ? "?" : row.leader + row.mark) + " › " + row.follower;
    const cut = row.restart !== null ? "start " + row.restart : row.cut === null ? "-" : String(row.cut);
    tr.append(
      verdict, name, make("td", pair, "", "Leader › follower"),
      make("td", row.parts === null ? "-" : String(row.parts), "number", "Diverges at"), make("td", cut, "number", "Truncates to"),
      make("td", grouped(row.records), "number", "Records lost"), make("td", grouped(row.committed), "number", "Committed"),
      make("td", row.status, "", "Status"), make("td", reason(row), "reason", "Reason"));
    return tr;
  };
  const detail = (row) => {
    const tr = make("tr", null, "detail"), td = make("td");
    td.colSpan = 9;
    td.id = anchor(row);
    td.tabIndex = -1;
    td.append("No picture of this partition is on this page. Its explanation, with all numbers: ", make("code", command(row)));
    tr.append(td);
    return tr;
  };
  const draw = () => {
    found = inOrder(matches());
    const parts = document.createDocumentFragment();
    for (const row of found.slice(0, shown)) {
      parts.append(line(row));
      if (row === opened) parts.append(detail(row));
    }
    body.replaceChildren(parts);
    const visible = Math.min(shown, found.length);
    byId("shown").textContent = visible.toLocaleString("en-US") + " of " + found.length.toLocaleString("en-US") + " findings shown"
      + (found.length < rows.length ? ", filtered from " + rows.length.toLocaleString("en-US") : "") + ".";
    byId("more").hidden = visible === found.length;
  };
  const restart = () => { shown = STEP; draw(); };
  for (const input of Object.values(inputs)) input.addEventListener("input", restart);
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  byId("more").addEventListener("click", () => { shown += 10 * STEP; draw(); });

  const heads = [...document.querySelectorAll("#finding-table thead th[data-key]")];
  for (const head of heads) {
    const button = make("button", head.textContent);
    button.type = "button";
    head.replaceChildren(button);
    head.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => {
      const key = head.dataset.key, counts = ["records", "committed"].includes(key);
      sort = sort?.key === key ? { key, up: !sort.up } : { key, up: !counts };
      for (const other of heads) other.setAttribute("aria-sort", other !== head ? "none" : sort.up ? "ascending" : "descending");
      restart();
    });
  }

  // A link to a partition: to its picture, or to its row, whatever was filtered away.
  const follow = () => {
    let wanted;
    try { wanted = decodeURIComponent(location.hash.slice(1)); } catch { return; }
    if (!wanted) return;
    const there = byId(wanted);
    if (there && there.tagName !== "TD") {
      if (there.classList.contains("partition")) { there.scrollIntoView(); there.focus({ preventScroll: true }); }
      return;
    }
    const row = rows.find((one) => anchor(one) === wanted) ?? rows.find((one) => one.name === wanted);
    if (!row) return;
    for (const input of Object.values(inputs)) input.value = "";
    inputs.text.value = row.name;
    opened = hasPicture(row) ? null : row;
    restart();
    if (!found.slice(0, shown).includes(row)) { shown = found.length; draw(); }
    const target = byId(anchor(row));
    if (target) { target.scrollIntoView({ block: "center" }); target.focus({ preventScroll: true }); }
  };
  addEventListener("hashchange", follow);
  byId("filters").hidden = false;
  draw();
  follow();
})();
