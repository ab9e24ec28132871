-- Questions to a warehouse. Each statement runs unchanged in Spark SQL, DuckDB and delta-rs (DataFusion) once the tables have their names
-- there: `USE catalog.schema` in Spark, or a view of each folder, as in DuckDB
--   CREATE VIEW findings AS SELECT * FROM delta_scan('/srv/audits/findings');
-- The views come first; the others use them. A run counts once its rows of audit_runs are complete.

-- complete_runs: every run that counts, for each cluster that it read; age 1 is the latest one
CREATE OR REPLACE VIEW complete_runs AS
SELECT cluster_id, run_id, run_date, started_at, finished_at, exit_code,
    ROW_NUMBER() OVER (PARTITION BY cluster_id ORDER BY started_at DESC, run_id DESC) AS age
FROM audit_runs
WHERE status = 'complete' AND exit_code <> 2 AND last_seen_run_id IS NULL;

-- latest_runs: the latest of each cluster
CREATE OR REPLACE VIEW latest_runs AS
SELECT cluster_id, run_id, run_date, started_at, finished_at, exit_code FROM complete_runs WHERE age = 1;

-- open_findings: what is open by the latest runs: found, or not to be checked
CREATE OR REPLACE VIEW open_findings AS
SELECT found.*
FROM findings AS found
JOIN latest_runs AS runs ON runs.cluster_id = found.cluster_id AND runs.run_id = found.run_id
WHERE found.status <> 'resolved';

-- latest: when each cluster was audited last, and to what it came
SELECT cluster_id, run_id, run_date, finished_at, exit_code FROM latest_runs ORDER BY cluster_id;

-- brokers: may it be started? The latest answer for each broker whose start is not safe
SELECT starts.cluster_id, starts.broker_id, starts.runs, starts.outcome, starts.lost_records, starts.lost_committed
FROM broker_starts AS starts
JOIN latest_runs AS runs ON runs.cluster_id = starts.cluster_id AND runs.run_id = starts.run_id
WHERE starts.outcome <> 'safe'
ORDER BY starts.cluster_id, starts.broker_id;

-- new_criticals: critical findings of the latest runs that the run before did not have, and nobody has acknowledged
SELECT found.cluster_id, found.topic, found.partition, found.broker_id, found.code, found.summary
FROM open_findings AS found
WHERE found.status = 'new' AND found.severity = 'critical' AND found.acknowledgement IS NULL
ORDER BY found.cluster_id, found.topic, found.partition, found.broker_id, found.code;

-- worst_first: all that is open by the latest runs, the worst first; rows of an older version have no rank
SELECT found.cluster_id, found.severity, found.code, found.topic, found.partition, found.broker_id, found.summary
FROM open_findings AS found
ORDER BY found.severity_rank, found.cluster_id, found.topic, found.partition, found.broker_id, found.code;

-- worst_topics: open findings of the latest runs by topic, the worst first
SELECT found.cluster_id, found.topic,
    COUNT(CASE WHEN found.severity = 'critical' THEN 1 END) AS criticals,
    COUNT(CASE WHEN found.severity = 'error' THEN 1 END) AS errors,
    COUNT(*) AS open_findings
FROM open_findings AS found
GROUP BY found.cluster_id, found.topic
ORDER BY criticals DESC, errors DESC, open_findings DESC, found.cluster_id, found.topic
LIMIT 20;

-- worst_brokers: the same by broker; -1 is what is found of a partition as a whole
SELECT found.cluster_id, found.broker_id,
    COUNT(CASE WHEN found.severity = 'critical' THEN 1 END) AS criticals,
    COUNT(CASE WHEN found.severity = 'error' THEN 1 END) AS errors,
    COUNT(*) AS open_findings
FROM open_findings AS found
GROUP BY found.cluster_id, found.broker_id
ORDER BY criticals DESC, errors DESC, open_findings DESC, found.cluster_id, found.broker_id;

-- longest_open: open findings of the latest runs and since when they are open, the oldest first
SELECT found.cluster_id, found.topic, found.partition, found.broker_id, found.code, found.severity, first.run_date AS open_since
FROM open_findings AS found
LEFT JOIN complete_runs AS first ON first.cluster_id = found.cluster_id AND first.run_id = found.first_seen_run_id
ORDER BY open_since, found.cluster_id, found.topic, found.partition, found.broker_id, found.code
LIMIT 50;

-- trend: open findings of the last 30 complete runs of each cluster
SELECT runs.cluster_id, runs.run_date, runs.run_id, runs.exit_code,
    COUNT(CASE WHEN found.severity = 'critical' THEN 1 END) AS criticals,
    COUNT(CASE WHEN found.severity = 'error' THEN 1 END) AS errors,
    COUNT(found.finding_key) AS open_findings
FROM complete_runs AS runs
LEFT JOIN findings AS found ON found.cluster_id = runs.cluster_id AND found.run_id = runs.run_id AND found.status <> 'resolved'
WHERE runs.age <= 30
GROUP BY runs.cluster_id, runs.run_date, runs.run_id, runs.exit_code
ORDER BY runs.cluster_id, runs.run_date, runs.run_id;

-- one_partition: what each run said of the followers of one partition
SELECT runs.run_date, runs.run_id, pair.leader_id, pair.follower_id, pair.verdict, pair.severity, pair.truncation_offset, pair.lost_records
FROM replica_verdicts AS pair
JOIN complete_runs AS runs ON runs.cluster_id = pair.cluster_id AND runs.run_id = pair.run_id
WHERE pair.topic = 'billing' AND pair.partition = 0
ORDER BY runs.run_date, runs.run_id, pair.follower_id;

-- groups: consumer groups that a truncation affects, or may, in the latest runs, and what they never read and read again; null: unknown
SELECT impact.cluster_id, impact.group_id, COUNT(*) AS positions,
    CAST(SUM(impact.records_missed) AS BIGINT) AS records_missed, CAST(SUM(impact.records_reread) AS BIGINT) AS records_reread
FROM consumer_impacts AS impact
JOIN latest_runs AS runs ON runs.cluster_id = impact.cluster_id AND runs.run_id = impact.run_id
WHERE impact.affected OR impact.affected IS NULL
GROUP BY impact.cluster_id, impact.group_id
ORDER BY impact.cluster_id, impact.group_id;

-- unclean_elections: of the metadata log, with what replicas held that the elected one did not; null: unknown
SELECT elected.cluster_id, elected.topic, elected.partition, elected.leader_epoch, elected.leader_id, elected.began_at,
    elected.given_up_offsets
FROM leader_epochs AS elected
JOIN latest_runs AS runs ON runs.cluster_id = elected.cluster_id AND runs.run_id = elected.run_id
WHERE elected.election = 'unclean'
ORDER BY elected.began_at, elected.cluster_id, elected.topic, elected.partition;
