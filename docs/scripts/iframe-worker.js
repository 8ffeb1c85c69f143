// Lets a page that was opened as a file search: browsers start no Worker from file: addresses, so this one runs in a frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.loaded = new Promise((resolve) => (this.frame.onload = resolve));
      document.body.append(this.frame);
      const inner = this.frame.contentWindow;
      // What the program in the frame sends goes to the page, and not to itself.
      inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const program = inner.document.createElement("script");
      program.src = new URL(address, document.baseURI);
      this.loaded = new Promise((resolve) => (program.onload = resolve));
      inner.document.head.append(program);
    }

    postMessage(data) {
      this.loaded.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
