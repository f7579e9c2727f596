// Where a page can keep something and take it out again: databases, caches, files of its own, channels.

// A request of a database: its result is there, and its handlers are called one after the other.
function makeDatabaseRequest(result, types, event) {
  const request = new EventTarget();
  Object.assign(request, { result, readyState: 'done', error: null });
  for (const type of types) addTask(() => { const handler = request['on' + type]; if (handler) apply(handler, request, [Object.assign(makeEvent(type, request), event || {})]); });
  return request;
}
function makeDatabase() {
  const stores = new NativeMap();
  const storeOf = name => {
    const kept = stores.get(name) || new NativeMap();
    stores.set(name, kept);
    const ask = result => makeDatabaseRequest(result, ['success']);
    const put = (value, key) => { key = key === undefined ? kept.size + 1 : key; kept.set(toText(key), value); return ask(key); };
    const store = { name, put, add: put, get: key => ask(kept.get(toText(key))), getAll: () => ask([...kept.values()]), getAllKeys: () => ask([...kept.keys()]), count: () => ask(kept.size), delete: key => ask(kept.delete(toText(key))), clear: () => ask(kept.clear()), createIndex: () => store, index: () => store, openCursor: () => ask(null) };
    return store;
  };
  const database = Object.assign(new EventTarget(), { name: 'a', version: 1, objectStoreNames: { contains: name => stores.has(name), length: 0 }, createObjectStore: storeOf, deleteObjectStore() {}, close() {},
    transaction: () => Object.assign(new EventTarget(), { objectStore: storeOf, commit() {}, abort() {} }) });
  return { open: () => makeDatabaseRequest(database, ['upgradeneeded', 'success']), deleteDatabase: () => makeDatabaseRequest(undefined, ['success']), databases: () => resolved([]), cmp: () => 0 };
}

function makeCaches() {
  const kept = new NativeMap(), keyOf = address => resolveAddress(address && address.url || address);
  const cache = { put(address, response) { kept.set(keyOf(address), response); return resolved(); }, match: address => resolved(kept.get(keyOf(address))), add: () => resolved(), addAll: () => resolved(), delete: address => resolved(kept.delete(keyOf(address))), keys: () => resolved([]) };
  return { open: () => resolved(cache), match: cache.match, has: () => resolved(true), delete: () => resolved(true), keys: () => resolved([]) };
}

// Files that only the page itself can reach.
function makeFolder() {
  const kept = new NativeMap();
  const folder = { kind: 'directory', name: '', getFileHandle(name) {
    name = toText(name);
    let parts = kept.get(name) || '';
    return resolved({ kind: 'file', name, getFile: () => { const made = makeBlob([viewOf(kept.get(name) || '')]); made.name = name; return resolved(made); },
      createWritable: () => resolved({ write(part) { parts += bytesOf(part && part.data !== undefined ? part.data : part); kept.set(name, parts); return resolved(); }, close: () => resolved(), truncate: () => resolved(), seek: () => resolved() }) });
  }, getDirectoryHandle: () => resolved(folder), removeEntry: () => resolved(), resolve: () => resolved([]) };
  return folder;
}

const channels = [];
class BroadcastChannel extends EventTarget {
  constructor(name) { super(); this.name = toText(name); channels.push(this); }
  postMessage(data) {
    for (const other of slice(channels)) if (other !== this && other.name === this.name) addTask(() => {
      const event = Object.assign(makeEvent('message', other), { data });
      for (let i = 0; i < registered.length; i++) if (registered[i].target === other && registered[i].type === 'message') apply(registered[i].listener, other, [event]);
    });
  }
  close() {}
}

// What it refers to stays: here nothing waits for memory to be freed.
function makeWeakRef() { return class WeakRef { constructor(value) { hide(this, 'value', value); } deref() { return this.value; } }; }
