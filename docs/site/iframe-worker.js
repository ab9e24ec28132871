// A page that is opened from a disk may start no Worker, in which the theme searches. Here it gets a frame of the page's own instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      const inside = frame.contentWindow;
      const tell = (target, data) => target.dispatchEvent(new MessageEvent("message", { data }));
      inside.postMessage = (data) => tell(this, data);
      inside.importScripts = async (...urls) => {
        for (const one of urls) await load(one);
      };
      const load = (one) => new Promise((resolve, reject) => {
        const script = inside.document.createElement("script");
        script.src = one;
        script.onload = resolve;
        script.onerror = reject;
        inside.document.body.appendChild(script);
      });
      const ready = load(url);
      this.postMessage = (data) => { ready.then(() => tell(inside, data)); };
      this.terminate = () => frame.remove();
    }
  };
}
