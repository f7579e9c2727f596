// What a browser gives to scripts besides the document: addresses, bytes, files, requests, workers, storage, pixels.

const SCHEME = /^\s*([a-z][a-z0-9+.-]*):/i;
function splitAddress(text) {
  text = toText(text).trim();
  const match = /^([a-z][a-z0-9+.-]*:)?(?:[\/\\]{2}(?:([^@\/\\?#]*)@)?([^\/\\?#]*))?([^?#]*)(\?[^#]*)?(#[\s\S]*)?$/i.exec(text.slice(0, 20000)) || [];
  const host = match[3] || '', place = host.lastIndexOf(':'), hasPort = place > 0 && /^\d*$/.test(host.slice(place + 1));
  const protocol = (match[1] || '').toLowerCase();
  return { protocol, host, hostname: hasPort ? host.slice(0, place) : host, port: hasPort ? host.slice(place + 1) : '', pathname: match[4] || (host ? '/' : ''), search: match[5] || '', hash: match[6] || '',
    origin: host ? protocol + '//' + host : 'null', username: match[2] || '', password: '' };
}
const PAGE = 'file:///C:/Users/Reader/Downloads/page.html';
function resolveAddress(text, base) {
  text = toText(text).trim();
  if (SCHEME.test(text)) return text;
  base = base === undefined ? baseAddress : toText(base);
  if (text.startsWith('//')) return (splitAddress(base).protocol || 'https:') + text;
  if (!text) return base;
  const parts = splitAddress(base);
  const root = parts.protocol + '//' + parts.host;
  if (text[0] === '/') return root + text;
  if (text[0] === '#') return base.replace(/#[\s\S]*$/, '') + text;
  if (text[0] === '?') return root + parts.pathname + text;
  return root + parts.pathname.replace(/[^\/]*$/, '') + text;
}
let baseAddress = PAGE;

class URLSearchParams {
  constructor(given) {
    hide(this, 'pairs', []);
    const decode = text => { try { return decodeURIComponent(text.replace(/\+/g, ' ')); } catch (fault) { return text; } };
    if (given && typeof given === 'object' && !(given instanceof URLSearchParams)) { for (const each of isArray(given) ? given : given.pairs || keysOf(given).map(key => [key, given[key]])) this.append(each[0], each[1]); }
    else for (const each of toText(given === undefined ? '' : given).replace(/^\?/, '').split('&')) if (each) { const at = each.indexOf('='); this.append(decode(at < 0 ? each : each.slice(0, at)), at < 0 ? '' : decode(each.slice(at + 1))); }
  }
  append(key, value) { this.pairs.push([toText(key), toText(value)]); }
  get(key) { const pair = this.pairs.find(each => each[0] === key); return pair ? pair[1] : null; }
  getAll(key) { return this.pairs.filter(each => each[0] === key).map(each => each[1]); }
  has(key) { return this.pairs.some(each => each[0] === key); }
  set(key, value) { this.delete(key); this.append(key, value); }
  delete(key) { this.pairs = this.pairs.filter(each => each[0] !== key); }
  forEach(call) { for (const each of this.pairs) call(each[1], each[0], this); }
  keys() { return this.pairs.map(each => each[0])[Symbol.iterator](); }
  values() { return this.pairs.map(each => each[1])[Symbol.iterator](); }
  entries() { return this.pairs[Symbol.iterator](); }
  sort() { this.pairs.sort(); }
  [Symbol.iterator]() { return this.pairs[Symbol.iterator](); }
  toString() { return this.pairs.map(each => encodeURIComponent(each[0]) + '=' + encodeURIComponent(each[1])).join('&'); }
}
class URL {
  constructor(text, base) {
    text = resolveAddress(text, base === undefined ? 'about:blank' : base);
    if (!SCHEME.test(text)) throw new TypeError('Invalid URL');
    hide(this, 'text', text); Object.assign(this, splitAddress(text));
  }
  get href() { return this.host ? this.protocol + '//' + this.host + this.pathname + this.search + this.hash : this.text; }
  set href(value) { hide(this, 'text', toText(value)); Object.assign(this, splitAddress(value)); }
  get searchParams() { const params = new URLSearchParams(this.search); const self = this; for (const name of ['append', 'set', 'delete']) { const old = params[name]; params[name] = function (...given) { apply(old, params, given); const text = params.toString(); self.search = text ? '?' + text : ''; }; } return params; }
  toString() { return this.href; }
  toJSON() { return this.href; }
  static createObjectURL(blob) { const address = 'blob:null/' + (objects.size + 1) + '-4c1e-9b7d'; objects.set(address, blob instanceof Blob ? blob : new Blob([])); return address; }
  static revokeObjectURL() {}
  static canParse(text) { return SCHEME.test(toText(text)); }
  static parse(text, base) { try { return new URL(text, base); } catch (fault) { return null; } }
}
const objects = new NativeMap();

// Bytes are strings with one character for each byte, so that native functions work on them.
function textOfBytes(view) {
  if (view.byteLength > MUCH) lookAtClock();
  let text = '';
  for (let i = 0; i < view.length; i += 8192) text += apply(fromCodes, null, view.subarray(i, i + 8192));
  return text;
}
const toUtf8 = text => { for (let i = 0; i < text.length; i++) if (text.charCodeAt(i) > 127) return unescape(encodeURIComponent(text.isWellFormed() ? text : text.toWellFormed())); return text; };
function bytesOf(part) {
  if (part instanceof Blob) return part.bytes;
  if (part instanceof Buffer || (typeof SharedArrayBuffer === 'function' && part instanceof SharedArrayBuffer)) return textOfBytes(new Bytes(part));
  if (isView(part)) return textOfBytes(new Bytes(part.buffer, part.byteOffset, part.byteLength));
  if (part && part.pairs) return part.toString();
  return toUtf8(toText(part));
}
function viewOf(text) {
  if (text.length > MUCH) lookAtClock();
  const view = new Bytes(text.length);
  if (view.setFromBase64 && text.length > 2000) { view.setFromBase64(nativeBtoa(text)); return view; }
  for (let i = 0; i < text.length; i++) view[i] = text.charCodeAt(i);
  return view;
}
const nativeBtoa = btoa, nativeAtob = atob;
const decodeUtf8 = bytes => { try { return decodeURIComponent(escape(bytes)); } catch (fault) { return bytes; } };
let blobs = 0;
// Text that is meant as bytes becomes UTF-8 in a file, and is damaged by that; what was meant is noted, too.
function noteText(parts, number, bytes) {
  const text = parts && parts.length === 1 ? parts[0] : '';
  if (typeof text === 'string' && text.length > 8 && text.length < bytes.length && !/[^\x00-\xff]/.test(text) && /[\x00-\x08]/.test(text)) note('blob', number + ' as bytes', '', text);
}
class Blob {
  constructor(parts, given) {
    let bytes = '';
    if (parts && typeof parts === 'object') for (const part of parts) { bytes += bytesOf(part); if (bytes.length > 40000000) throw new RangeError('too large'); }
    hide(this, 'bytes', bytes); hide(this, 'number', ++blobs);
    this.type = given && given.type !== undefined ? toText(given.type) : '';
    if (bytes.length > 8) hide(this, 'isNoted', note('blob', this.number, this.type, bytes));
    noteText(parts, this.number, bytes);
  }
  get size() { return this.bytes.length; }
  slice(from, to, type) { return new Blob([viewOf(this.bytes.slice(from || 0, to))], { type: type || '' }); }
  text() { return resolved(decodeUtf8(this.bytes)); }
  arrayBuffer() { return resolved(viewOf(this.bytes).buffer); }
  bytes_() { return resolved(viewOf(this.bytes)); }
  stream() { return makeStream(this.bytes); }
}
class File extends Blob {
  constructor(parts, name, given) { super(parts, given); this.name = toText(name); this.lastModified = now; note('named', this.number, this.name); }
}
function makeStream(bytes, more) {
  let isRead = false;
  return Object.assign({ bytes, locked: false, getReader: () => ({ read() { const done = isRead; isRead = true; return resolved(done ? { done, value: undefined } : { done, value: viewOf(bytes) }); }, releaseLock() {}, cancel() {}, closed: resolved() }),
    pipeThrough(step) { return step && step.change ? makeStream(step.change(bytes)) : makeStream(bytes); }, pipeTo(sink) { if (sink && sink.take) sink.take(bytes); return resolved(); }, cancel() { return resolved(); }, tee() { return [makeStream(bytes), makeStream(bytes)]; },
    [Symbol.asyncIterator]: async function* () { yield viewOf(bytes); } }, more || {});
}
// What a stream would unpack is noted as it is; Python unpacks it.
class DecompressionStream { constructor(form) { this.form = toText(form); this.readable = makeStream(''); this.writable = { getWriter: () => ({ write: part => { this.readable = makeStream(this.change(bytesOf(part))); return resolved(); }, close: () => resolved() }) }; } change(bytes) { note('inflate', this.form, bytes); return bytes; } }
class ReadableStream { constructor(source) { let bytes = ''; const made = makeStream('', {}); const control = { enqueue(part) { bytes += bytesOf(part); }, close() {}, error() {} }; if (source && source.start) attempt(() => source.start(control), trigger); if (source && source.pull) attempt(() => source.pull(control), trigger); return Object.assign(made, makeStream(bytes)); } }
class TransformStream { constructor() { this.readable = makeStream(''); this.writable = makeAnything('writable'); } change(bytes) { return bytes; } }
class WritableStream { constructor(sink) { this.sink = sink; } take(bytes) { if (this.sink && this.sink.write) this.sink.write(viewOf(bytes)); } getWriter() { const self = this; return { write(part) { self.take(bytesOf(part)); return resolved(); }, close: () => resolved() }; } }

class FileReader extends EventTarget {
  readAs(blob, make) { const bytes = blob && blob.bytes || ''; this.result = null; this.readyState = 1; addTask(() => { this.result = make(bytes, blob); this.readyState = 2; for (const type of ['load', 'loadend']) { const event = makeEvent(type, this); const handler = this['on' + type]; if (handler) apply(handler, this, [event]); for (let i = 0; i < registered.length; i++) if (registered[i].target === this && registered[i].type === type && registered[i].listener !== handler) apply(registered[i].listener, this, [event]); } }); }
  readAsText(blob) { this.readAs(blob, decodeUtf8); }
  readAsDataURL(blob) { this.readAs(blob, bytes => 'data:' + (blob.type || 'application/octet-stream') + ';base64,' + nativeBtoa(bytes)); }
  readAsArrayBuffer(blob) { this.readAs(blob, bytes => viewOf(bytes).buffer); }
  readAsBinaryString(blob) { this.readAs(blob, bytes => bytes); }
  abort() {}
}
class TextDecoder {
  constructor(name) { this.encoding = toText(name === undefined ? 'utf-8' : name).toLowerCase(); }
  decode(part) {
    const bytes = part === undefined ? '' : bytesOf(part);
    if (/^utf-?16/.test(this.encoding)) { let text = ''; const big = /be/.test(this.encoding) ? 1 : 0; for (let i = 0; i + 1 < bytes.length; i += 2) text += fromCodes(bytes.charCodeAt(i + 1 - big) << 8 | bytes.charCodeAt(i + big)); return text; }
    return /utf-?8/.test(this.encoding) ? decodeUtf8(bytes).replace(/^\ufeff/, '') : bytes;
  }
}
class TextEncoder { get encoding() { return 'utf-8'; } encode(text) { return viewOf(toUtf8(toText(text === undefined ? '' : text))); } encodeInto(text, view) { const bytes = viewOf(toUtf8(toText(text))); view.set(bytes.subarray(0, view.length)); return { read: text.length, written: bytes.length }; } }

// The content of data: and blob: addresses; null for all others.
function readAddress(address) {
  const blob = readBlob(address);
  return blob ? decodeUtf8(blob.bytes) : null;
}
function readBlob(address) {
  address = toText(address).trim();
  if (/^blob:/i.test(address)) return objects.get(address) || null;
  const match = /^data:([^,]*),([\s\S]*)$/i.exec(address);
  if (!match) return null;
  let bytes = match[2];
  if (bytes.indexOf('%') >= 0) { try { bytes = unescape(bytes); } catch (fault) { /* as it is */ } }
  if (/;\s*base64\s*$/i.test(match[1])) { try { bytes = nativeAtob(bytes.replace(/\s/g, '')); } catch (fault) { return null; } } else bytes = toUtf8(bytes);
  return new Blob([viewOf(bytes)], { type: match[1].split(';')[0] });
}
// Note a file that is saved, with its bytes where there was no room for them before.
function noteSave(blob, name) {
  if (!blob.isNoted && blob.bytes.length > 8) hide(blob, 'isNoted', note('saved', blob.number, blob.type, blob.bytes));
  note('save', blob.number, name, trigger, blob.type);
}
// Saving: by a link with `download`, by going to a file, by the functions of old browsers.
function saveAddress(address, name) {
  const blob = readBlob(address);
  if (blob) noteSave(blob, name || blob.name || '');
  else { note('go', resolveAddress(address), 'download', trigger); }
}
const PAGE_TYPES = /html|xml|svg/;
function showAddress(address, how) {
  const blob = readBlob(address);
  if (!blob) return false;
  if (PAGE_TYPES.test(blob.type)) { note('write', decodeUtf8(blob.bytes), trigger); const root = new DocumentFragment(); readMarkup(decodeUtf8(blob.bytes), root, true); }
  else if (how !== 'load') noteSave(blob, '');
  return true;
}
let steps = 0;
function follow(target, how) {
  target = toText(target);
  if (++steps > 200) return;
  let address = target;
  // The page may have broken functions that are used here; the address is noted all the same.
  try {
    if (isScriptLink(target)) { address = ''; const made = runCode(readScriptLink(target), 'link'); if (typeof made === 'string') writePage(made); return; }
    if (showAddress(target, how) || /^\s*(?:#|about:)/i.test(target)) { address = ''; return; }
    address = resolveAddress(target);
  } finally { if (address) note('go', address, how, trigger); }
}
const images = new Set();
function noteImage(address) { if (!images.has(address) && images.size < 60) { images.add(address); note('request', 'GET', address, '', 'image', trigger); } else if (/typed|secret/i.test(address)) note('request', 'GET', address, '', 'image', trigger); }
function loadSource(node, target) {
  target = toText(target);
  const name = node.localName;
  if (isScriptLink(target)) { addTask(() => { const made = runCode(readScriptLink(target), 'link'); if (typeof made === 'string' && name === 'iframe') writePage(made); }); return; }
  if (name === 'img' || name === 'image') { if (!/^(?:data|blob|cid):/i.test(target.trim())) noteImage(resolveAddress(target)); const known = pixelsOf(target); if (known) hide(node, 'pixels', known); }
  else if (name === 'iframe' || name === 'frame' || name === 'object' || name === 'embed') { if (!showAddress(target, 'frame') && !/^\s*about:/i.test(target)) note('frame', resolveAddress(target), trigger); }
  else if (!/^(?:data|blob):/i.test(target)) note('request', 'GET', resolveAddress(target), '', name, trigger);
}
const frames_ = new WeakMap();
function frameWindow(node) {
  let made = frames_.get(node);
  if (!made) {
    const inside = new Document();
    readMarkup('<html><head></head><body></body></html>', inside, false);
    inside.write = inside.writeln = (...given) => writePage(given.join(''));
    made = new NativeProxy({ document: inside }, { get: (own, key) => key in own ? own[key] : key === 'location' ? location : key === 'parent' || key === 'top' ? window : window[key], set: (own, key, value) => { if (key === 'location') follow(value, 'frame'); else own[key] = value; return true; }, has: () => true });
    frames_.set(node, made);
  }
  return made;
}
const frameDocument = node => frameWindow(node).document;

const location = makeObject(null);
{
  const parts = splitAddress(PAGE);
  const members = { href: PAGE, protocol: 'file:', host: '', hostname: '', port: '', pathname: parts.pathname, search: '', hash: '', origin: 'null' };
  for (const key of keysOf(members)) define(location, key, { configurable: true, enumerable: true, get: () => members[key], set(value) { if (key === 'hash') { members.hash = toText(value); for (let i = 0; i < registered.length; i++) if (registered[i].type === 'hashchange') callListener(registered[i].target, 'hashchange', registered[i].listener); } else if (key === 'href') follow(value, 'location'); else noteOnce('go', toText(value)); } });
  give(location, { assign(value) { follow(value, 'location'); }, replace(value) { follow(value, 'location'); }, reload() {}, toString: () => members.href, valueOf() { return this; } });
  hide(location, Symbol.toPrimitive, () => members.href);
  location.ancestorOrigins = [];
}

class Headers { constructor(given) { hide(this, 'kept', makeObject(null)); if (given) for (const key of keysOf(given)) this.kept[key.toLowerCase()] = toText(given[key]); } get(key) { return this.kept[toText(key).toLowerCase()] || null; } set(key, value) { this.kept[toText(key).toLowerCase()] = toText(value); } append(key, value) { this.set(key, value); } has(key) { return toText(key).toLowerCase() in this.kept; } delete(key) { delete this.kept[toText(key).toLowerCase()]; } forEach(call) { for (const key of keysOf(this.kept)) call(this.kept[key], key); } entries() { return Object.entries(this.kept)[Symbol.iterator](); } }
class Response {
  constructor(body, given) { hide(this, 'bytes', body === undefined || body === null ? '' : body.bytes !== undefined ? body.bytes : bytesOf(body)); this.status = given && given.status || 200; this.ok = true; this.headers = new Headers(given && given.headers); this.url = ''; this.redirected = false; this.type = 'basic'; this.statusText = 'OK'; }
  get body() { return makeStream(this.bytes); }
  text() { return resolved(decodeUtf8(this.bytes)); }
  blob() { return resolved(new Blob([viewOf(this.bytes)], { type: this.headers.get('content-type') || '' })); }
  arrayBuffer() { return resolved(viewOf(this.bytes).buffer); }
  json() { const bytes = this.bytes; if (bytes === ANSWER) { lacks('answer of a server'); return resolved(makeAnswer()); } try { return resolved(parseJson(decodeUtf8(bytes))); } catch (fault) { return rejected(fault); } }
  formData() { return resolved(new FormData()); }
  clone() { return this; }
}
class Request { constructor(address, given) { this.url = resolveAddress(address && address.url || address); this.method = given && given.method || 'GET'; this.body = given && given.body; this.headers = new Headers(given && given.headers); } }
class FormData {
  constructor(form) { hide(this, 'pairs', []); if (form && form.localName === 'form') { fillInputs(); for (const node of selectAll(form, 'input,textarea,select')) if (node.$marks.name || node.$marks.id) this.pairs.push([node.$marks.name || node.$marks.id, node.value]); } }
  toString() { return this.pairs.map(each => each[0] + '=' + (each[1] instanceof Blob ? each[1].bytes : each[1])).join('&'); }
}
for (const name of ['append', 'get', 'getAll', 'has', 'set', 'delete', 'forEach', 'keys', 'values', 'entries']) hide(FormData.prototype, name, URLSearchParams.prototype[name]);
hide(FormData.prototype, Symbol.iterator, URLSearchParams.prototype[Symbol.iterator]);
hide(FormData.prototype, 'append', function (key, value) { this.pairs.push([toText(key), value instanceof Blob ? value : toText(value)]); });

const bodyText = body => { if (body === undefined || body === null) return ''; try { return typeof body === 'object' && !(body instanceof Blob) && !isView(body) && !(body instanceof Buffer) ? body.pairs ? body.toString() : stringify(body) || '' : bytesOf(body); } catch (fault) { return ''; } };
function makeRequest(method, address, body, how) { note('request', toText(method || 'GET').toUpperCase(), resolveAddress(address), bodyText(body).slice(0, 100000), how, trigger); }
function answerFetch(address, given) {
  given = given || (address && typeof address === 'object' && address.url ? address : {});
  const target = address && typeof address === 'object' && address.url ? address.url : toText(address);
  const blob = readBlob(target);
  if (blob) { const response = new Response(blob, { headers: { 'content-type': blob.type } }); hide(response, 'isOwn', true); return resolved(response); }
  makeRequest(given.method, target, given.body, 'fetch');
  return resolved(new Response(ANSWER, {}));
}
class XMLHttpRequest extends EventTarget {
  constructor() { super(); this.readyState = 0; this.status = 0; this.responseText = ''; this.response = ''; this.responseType = ''; this.statusText = ''; this.upload = new EventTarget(); this.responseXML = null; this.timeout = 0; }
  open(method, address) { this.method = toText(method); this.address = toText(address); this.readyState = 1; }
  setRequestHeader() {}
  overrideMimeType() {}
  getResponseHeader() { return null; }
  getAllResponseHeaders() { return ''; }
  abort() {}
  send(body) {
    const blob = readBlob(this.address);
    if (!blob) makeRequest(this.method, this.address, body, 'xhr');
    this.readyState = 4; this.status = 200; this.statusText = 'OK'; this.responseURL = this.address;
    const bytes = blob ? blob.bytes : ANSWER;
    this.responseText = decodeUtf8(bytes);
    this.response = this.responseType === 'arraybuffer' ? viewOf(bytes).buffer : this.responseType === 'blob' ? blob || new Blob([]) : this.responseType === 'json' ? blob ? parseJson(this.responseText) : makeAnswer() : this.responseText;
    addTask(() => { for (const type of ['readystatechange', 'load', 'loadend']) { const handler = this['on' + type]; if (handler) apply(handler, this, [makeEvent(type, this)]); } });
  }
}
class WebSocket extends EventTarget {
  constructor(address) { super(); this.url = toText(address); this.readyState = 1; makeRequest('GET', address, '', 'socket'); addTask(() => { for (const type of ['open', 'message']) { const event = Object.assign(makeEvent(type, this), { data: ANSWER }); if (this['on' + type]) apply(this['on' + type], this, [event]); for (let i = 0; i < registered.length; i++) if (registered[i].target === this && registered[i].type === type && registered[i].listener !== this['on' + type]) apply(registered[i].listener, this, [event]); } }); }
  send(body) { makeRequest('POST', this.url, body, 'socket'); }
  close() {}
}
class EventSource extends EventTarget { constructor(address) { super(); makeRequest('GET', address, '', 'events'); } close() {} }

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

function makeStorage() {
  const kept = makeObject(null);
  return new NativeProxy({}, { get: (_, key) => key === 'getItem' ? name => name in kept ? kept[name] : null : key === 'setItem' ? (name, value) => { kept[name] = toText(value); } : key === 'removeItem' ? name => { delete kept[name]; } : key === 'clear' ? () => { for (const name of keysOf(kept)) delete kept[name]; } : key === 'key' ? place => keysOf(kept)[place] || null : key === 'length' ? keysOf(kept).length : kept[key], set: (_, key, value) => { kept[key] = toText(value); return true; } });
}
class Observer { constructor(call) { hide(this, 'call', call); } observe(target) { const call = this.call; addTask(() => call([{ target, isIntersecting: true, intersectionRatio: 1, type: 'childList', addedNodes: [], removedNodes: [], contentRect: { width: 300, height: 40 }, boundingClientRect: { top: 0 } }], this)); } unobserve() {} disconnect() {} takeRecords() { return []; } }

const userAgent = 'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36';
const navigator = { userAgent, appVersion: userAgent.slice(8), appName: 'Netscape', appCodeName: 'Mozilla', product: 'Gecko', productSub: '20030107', platform: 'Win32', vendor: 'Google Inc.', vendorSub: '', language: 'en-US', languages: ['en-US', 'en'],
  onLine: true, cookieEnabled: true, doNotTrack: null, maxTouchPoints: 0, hardwareConcurrency: 8, deviceMemory: 8, pdfViewerEnabled: true, plugins: [{ name: 'PDF Viewer' }, { name: 'Chrome PDF Viewer' }, { name: 'Chromium PDF Viewer' }], mimeTypes: [{ type: 'application/pdf' }, { type: 'text/pdf' }],
  userAgentData: { brands: [{ brand: 'Chromium', version: '126' }], mobile: false, platform: 'Windows', getHighEntropyValues: () => resolved({ platform: 'Windows', platformVersion: '15.0.0', architecture: 'x86' }) },
  connection: { effectiveType: '4g', rtt: 50, downlink: 10, addEventListener() {} }, geolocation: { getCurrentPosition() {}, watchPosition() {} }, serviceWorker: { register(address) { makeRequest('GET', address, '', 'worker'); return resolved(makeAnything('registration')); }, ready: new NativePromise(() => {}), addEventListener() {}, controller: null },
  permissions: { query: () => resolved({ state: 'granted', addEventListener() {} }) }, mediaDevices: { getUserMedia: () => rejected(new Error('NotAllowedError')), enumerateDevices: () => resolved([]) }, credentials: makeAnything('credentials'), storage: { estimate: () => resolved({ quota: 1e9, usage: 1e4 }), persist: () => resolved(true) },
  clipboard: { writeText(text) { note('clipboard', text, trigger); return resolved(); }, readText: () => resolved(''), read: () => resolved([]), write(items) { for (const item of items || []) if (item && item.given) for (const type of keysOf(item.given)) resolved(item.given[type]).then(blob => note('clipboard', blob instanceof Blob ? decodeUtf8(blob.bytes) : blob, 'load')); return resolved(); } },
  javaEnabled: () => false, sendBeacon(address, body) { makeRequest('POST', address, body, 'beacon'); return true; }, vibrate: () => true, share(given) { takeObject('navigator.share', given || {}, 0); return resolved(); }, canShare: () => true,
  msSaveBlob(blob, name) { if (blob instanceof Blob) noteSave(blob, toText(name)); return true; }, msSaveOrOpenBlob(blob, name) { return navigator.msSaveBlob(blob, name); },
  registerProtocolHandler() {}, getBattery: () => resolved({ level: 0.8, charging: true, addEventListener() {} }), getGamepads: () => [], requestMediaKeySystemAccess: () => rejected(new Error('NotSupportedError')) };
define(navigator, 'webdriver', { enumerable: true, configurable: true, get() { noteOnce('looks', 'webdriver'); return false; } });
class ClipboardItem { constructor(given) { hide(this, 'given', given); this.types = keysOf(given || {}); } getType(type) { return resolved(this.given[type]); } }

// Drawing: pixels that are set or come with the page are known, the rest is blank.
const MAX_PIXELS = 4000000;
let pagePixels = makeObject(null);
const pixelsOf = address => { const found = pagePixels[toText(address).trim()]; if (!found) return null; if (!found.data) found.data = viewOf(nativeAtob(found.bytes)); return found; };
const parseColour = text => { const hex = /^#([0-9a-f]{6})/i.exec(text), parts = /^rgba?\(\s*(\d+)[\s,]+(\d+)[\s,]+(\d+)/i.exec(text), short = /^#([0-9a-f])([0-9a-f])([0-9a-f])$/i.exec(text); return hex ? [parseInt(hex[1].slice(0, 2), 16), parseInt(hex[1].slice(2, 4), 16), parseInt(hex[1].slice(4), 16)] : short ? [1, 2, 3].map(i => parseInt(short[i] + short[i], 16)) : parts ? [+parts[1], +parts[2], +parts[3]] : text === 'white' ? [255, 255, 255] : [0, 0, 0]; };
class ImageData { constructor(one, two, three) { if (typeof one === 'number') { this.width = one; this.height = two; this.data = new Uint8ClampedArray(Math.min(one * two, MAX_PIXELS) * 4); } else { this.data = one; this.width = two; this.height = three || one.length / 4 / two; } } }
function drawingOn(canvas, kind) {
  if (canvas.drawing) return canvas.drawing;
  if (kind !== '2d') { lacks('canvas ' + kind); return kind === 'bitmaprenderer' ? makeAnything('drawing') : null; }
  const size = () => [Math.max(1, +canvas.width || 300), Math.max(1, +canvas.height || 150)];
  let pixels = null, width = 0;
  const surface = () => { const [w, h] = size(); if (!pixels || width !== w) { if (w * h > MAX_PIXELS) throw new RangeError('canvas'); width = w; pixels = new Uint8ClampedArray(w * h * 4); } return pixels; };
  const put = (source, sw, sh, x, y) => { const own = surface(), h = own.length / 4 / width; x |= 0; y |= 0; for (let row = 0; row < sh && y + row < h; row++) { if (y + row < 0) continue; const take = Math.min(sw, width - x); if (take > 0 && x >= 0) own.set(source.subarray(row * sw * 4, (row * sw + take) * 4), ((y + row) * width + x) * 4); } };
  const known = { canvas, fillStyle: '#000000', fillRect(x, y, w, h) { const own = surface(), colour = parseColour(toText(known.fillStyle)); w = Math.min(w, width); for (let row = y | 0; row < y + h && row * width * 4 < own.length; row++) for (let i = x | 0; i < x + w && i < width; i++) { const at = (row * width + i) * 4; own[at] = colour[0]; own[at + 1] = colour[1]; own[at + 2] = colour[2]; own[at + 3] = 255; } },
    clearRect() {}, getImageData(x, y, w, h) { const own = surface(), out = new ImageData(w, h); for (let row = 0; row < h; row++) { const at = (((y | 0) + row) * width + (x | 0)) * 4; out.data.set(own.subarray(at, at + Math.min(w, width) * 4), row * w * 4); } noteOnce('looks', 'pixels'); return out; },
    putImageData(image, x, y) { put(image.data, image.width, image.height, x, y); }, createImageData: (w, h) => new ImageData(w, h), drawImage(image, ...given) { const source = image && (image.pixels || (image.drawing && image.drawing.own && image.drawing.own())); if (source) put(source.data, source.width, source.height, given.length > 4 ? given[4] : given[0], given.length > 4 ? given[5] : given[1]); else lacks('pixels of a picture'); },
    own: () => ({ data: surface(), width, height: pixels.length / 4 / width }), measureText: text => ({ width: toText(text).length * 7, actualBoundingBoxAscent: 8, actualBoundingBoxDescent: 2 }) };
  const drawing = new NativeProxy(known, { get: (own, key) => key in own ? own[key] : typeof key === 'symbol' ? undefined : own[key] = () => makeGradient, set: (own, key, value) => { own[key] = value; return true; } });
  hide(canvas, 'drawing', drawing);
  return drawing;
}
const makeGradient = { addColorStop() {}, setTransform() {} };
