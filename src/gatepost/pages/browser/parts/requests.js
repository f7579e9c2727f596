// Requests to servers.

class Headers { constructor(given) { hide(this, 'kept', makeObject(null)); if (given) for (const key of keysOf(given)) this.kept[key.toLowerCase()] = toText(given[key]); } get(key) { return this.kept[toText(key).toLowerCase()] || null; } set(key, value) { this.kept[toText(key).toLowerCase()] = toText(value); } append(key, value) { this.set(key, value); } has(key) { return toText(key).toLowerCase() in this.kept; } delete(key) { delete this.kept[toText(key).toLowerCase()]; } forEach(call) { for (const key of keysOf(this.kept)) call(this.kept[key], key); } entries() { return Object.entries(this.kept)[Symbol.iterator](); } }

class Response {
  constructor(body, given) { hide(this, 'bytes', body === undefined || body === null ? '' : body.bytes !== undefined ? body.bytes : bytesOf(body)); this.status = given && given.status || 200; this.ok = true; this.headers = new Headers(given && given.headers); this.url = ''; this.redirected = false; this.type = 'basic'; this.statusText = 'OK'; }
  get body() { return makeStream(this.bytes); }
  text() { return resolved(decodeUtf8(this.bytes)); }
  blob() { return resolved(makeBlob([viewOf(this.bytes)], { type: this.headers.get('content-type') || '' })); }
  arrayBuffer() { return resolved(viewOf(this.bytes).buffer); }
  json() { const bytes = this.bytes; if (bytes === ANSWER) { lacks('answer of a server'); return resolved(makeAnswer()); } try { return resolved(parseJson(decodeUtf8(bytes))); } catch (fault) { return rejected(fault); } }
  formData() { return resolved(makeFormData()); }
  clone() { return this; }
}

class Request { constructor(address, given) { this.url = resolveAddress(address && address.url || address); this.method = given && given.method || 'GET'; this.body = given && given.body; this.headers = new Headers(given && given.headers); } }
const bodyText = body => { if (body === undefined || body === null) return ''; try { return typeof body === 'object' && !(isBlob(body)) && !isView(body) && !(body instanceof Buffer) ? body.pairs ? body.toString() : stringify(body) || '' : bytesOf(body); } catch (fault) { return ''; } };
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
    this.response = this.responseType === 'arraybuffer' ? viewOf(bytes).buffer : this.responseType === 'blob' ? blob || makeBlob([]) : this.responseType === 'json' ? blob ? parseJson(this.responseText) : makeAnswer() : this.responseText;
    addTask(() => { for (const type of ['readystatechange', 'load', 'loadend']) { const handler = this['on' + type]; if (handler) apply(handler, this, [makeEvent(type, this)]); } });
  }
}

class WebSocket extends EventTarget {
  constructor(address) { super(); this.url = toText(address); this.readyState = 1; makeRequest('GET', address, '', 'socket'); addTask(() => { for (const type of ['open', 'message']) { const event = Object.assign(makeEvent(type, this), { data: ANSWER }); if (this['on' + type]) apply(this['on' + type], this, [event]); for (let i = 0; i < registered.length; i++) if (registered[i].target === this && registered[i].type === type && registered[i].listener !== this['on' + type]) apply(registered[i].listener, this, [event]); } }); }
  send(body) { makeRequest('POST', this.url, body, 'socket'); }
  close() {}
}

class EventSource extends EventTarget { constructor(address) { super(); makeRequest('GET', address, '', 'events'); } close() {} }
