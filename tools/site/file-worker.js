/* Search in a site that was opened as files: browsers start no worker from `file:`, so the worker's script runs in a
   hidden frame of the page instead, which has the same `postMessage` and `onmessage`. Over HTTP nothing changes. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.onmessage = null;
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "search";
      const start = () => {
        document.body.append(frame);
        const inside = frame.contentWindow;
        // Later, as a worker would: what receives a message may send the next one.
        inside.postMessage = (data) => setTimeout(() => this.receive(data));
        inside.importScripts = (...scripts) => Promise.all(scripts.map((script) => load(inside, script)));
        load(inside, url).then(() => {
          this.inside = inside;
          this.waiting.splice(0).forEach((data) => this.postMessage(data));
        });
      };
      document.body ? start() : addEventListener("DOMContentLoaded", start);
    }

    receive(data) {
      const event = new MessageEvent("message", { data: structuredClone(data) });
      this.dispatchEvent(event);
      this.onmessage?.(event);
    }

    postMessage(data) {
      if (!this.inside) {
        this.waiting.push(data);
        return;
      }
      const copy = this.inside.structuredClone(data);
      const event = new this.inside.MessageEvent("message", { data: copy });
      setTimeout(() => this.inside.dispatchEvent(event));
    }

    terminate() {}
  };

  function load(inside, url) {
    return new Promise((resolve, reject) => {
      const script = inside.document.createElement("script");
      script.src = new URL(url, location.href);
      script.onload = resolve;
      script.onerror = reject;
      inside.document.body.append(script);
    });
  }
}
