// Readers and writers of text and files, streams.

function makeStream(bytes, more) {
  let isRead = false;
  return Object.assign({ bytes, locked: false, getReader: () => ({ read() { const done = isRead; isRead = true; return resolved(done ? { done, value: undefined } : { done, value: viewOf(bytes) }); }, releaseLock() {}, cancel() {}, closed: resolved() }),
    pipeThrough(step) { return step && step.change ? makeStream(step.change(bytes)) : makeStream(bytes); }, pipeTo(sink) { if (sink && sink.take) sink.take(bytes); return resolved(); }, cancel() { return resolved(); }, tee() { return [makeStream(bytes), makeStream(bytes)]; },
    [Symbol.asyncIterator]: async function* () { yield viewOf(bytes); } }, more || {});
}

// What a stream would unpack is noted as it is; Python unpacks it.
class DecompressionStream { constructor(form) { this.form = toText(form); this.readable = makeStream(''); this.writable = { getWriter: () => ({ write: part => { this.readable = makeStream(this.change(bytesOf(part))); return resolved(); }, close: () => resolved() }) }; } change(bytes) { note('inflate', this.form, bytes); return bytes; } }

class ReadableStream { constructor(source) { let bytes = ''; const made = makeStream('', {}); const control = { enqueue(part) { bytes += bytesOf(part); }, close() {}, error() {} }; if (source && source.start) attempt(() => source.start(control), trigger); if (source && source.pull) attempt(() => source.pull(control), trigger); return Object.assign(made, makeStream(bytes)); } }

class TextDecoderStream { change(bytes) { return bytes; } }

class TextEncoderStream { change(bytes) { return bytes; } }

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
