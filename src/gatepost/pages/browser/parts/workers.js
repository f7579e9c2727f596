// Workers and channels.

// A worker runs its code at once, with its own `self`, and messages go both ways.
class Worker extends EventTarget {
  constructor(address) {
    super();
    const source = readAddress(address), outer = this;
    if (source === null) { note('request', 'GET', resolveAddress(address), '', 'worker', trigger); return; }
    const inner = { listeners: [], onmessage: null, postMessage: data => outer.receive(data), addEventListener(type, call) { if (type === 'message') inner.listeners.push(call); }, importScripts(...all) { for (const each of all) { const text = readAddress(each); if (text !== null) runCode(text, 'worker'); } }, close() {} };
    hide(this, 'inner', inner);
    note('code', 'worker', source);
    const scope = new NativeProxy(inner, { get: (own, key) => key in own ? own[key] : window[key], has: (own, key) => key !== 'run' });
    const run = new NativeFunction('self', 'with(self){' + prepareCode(source) + '\n;try{if(typeof onmessage==="function"&&!self.onmessage)self.onmessage=onmessage}catch(e){}}');
    inner.self = inner.globalThis = scope;
    attempt(() => run(scope), trigger);
  }
  receive(data) { const event = Object.assign(makeEvent('message', this), { data }); if (this.onmessage) attempt(() => this.onmessage(event), trigger); for (let i = 0; i < registered.length; i++) if (registered[i].target === this && registered[i].type === 'message' && registered[i].listener !== this.onmessage) attempt(() => registered[i].listener(event), trigger); }
  postMessage(data) { const inner = this.inner; if (!inner) return; addTask(() => { const event = Object.assign(makeEvent('message', this), { data }); if (inner.onmessage) inner.onmessage(event); for (const each of inner.listeners) each(event); }); }
  terminate() {}
}

class MessageChannel { constructor() { const make = () => Object.assign(new EventTarget(), { start() {}, close() {} }); this.port1 = make(); this.port2 = make(); const join = (one, other) => { one.postMessage = data => addTask(() => { const event = Object.assign(makeEvent('message', other), { data }); if (other.onmessage) other.onmessage(event); }); }; join(this.port1, this.port2); join(this.port2, this.port1); } }
