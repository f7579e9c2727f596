// The classes URL and URLSearchParams.

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
    if (!hasScheme(text)) throw new TypeError('Invalid URL');
    hide(this, 'text', text); Object.assign(this, splitAddress(text));
  }
  get href() { return this.host ? this.protocol + '//' + this.host + this.pathname + this.search + this.hash : this.text; }
  set href(value) { hide(this, 'text', toText(value)); Object.assign(this, splitAddress(value)); }
  get searchParams() { const params = new URLSearchParams(this.search); const self = this; for (const name of ['append', 'set', 'delete']) { const old = params[name]; params[name] = function (...given) { apply(old, params, given); const text = params.toString(); self.search = text ? '?' + text : ''; }; } return params; }
  toString() { return this.href; }
  toJSON() { return this.href; }
  static createObjectURL(blob) { const address = 'blob:null/' + (objects.size + 1) + '-4c1e-9b7d'; objects.set(address, isBlob(blob) ? blob : makeBlob([])); return address; }
  static revokeObjectURL() {}
  static canParse(text) { return hasScheme(toText(text)); }
  static parse(text, base) { try { return new URL(text, base); } catch (fault) { return null; } }
}
function makeParams(given) { return new URLSearchParams(given); }

// The class FormData, which has the members of URLSearchParams.

class FormData {
  constructor(form) { hide(this, 'pairs', []); if (form && form.localName === 'form') { fillInputs(); for (const node of selectAll(form, 'input,textarea,select')) if (node.$marks.name || node.$marks.id) this.pairs.push([node.$marks.name || node.$marks.id, node.value]); } }
  toString() { return this.pairs.map(each => each[0] + '=' + (isBlob(each[1]) ? each[1].bytes : each[1])).join('&'); }
}
const params = URLSearchParams.prototype;
const PARAMS = ['get', 'getAll', 'has', 'set', 'delete', 'forEach', 'keys', 'values', 'entries'];
for (let i = 0; i < PARAMS.length; i++) hide(FormData.prototype, PARAMS[i], params[PARAMS[i]]);
hide(FormData.prototype, Symbol.iterator, params[Symbol.iterator]);
hide(FormData.prototype, 'append', function (key, value) { this.pairs.push([toText(key), isBlob(value) ? value : toText(value)]); });
function makeFormData(form) { return new FormData(form); }
