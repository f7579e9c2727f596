// The document of the stand-in browser: nodes, elements, a reader of markup, selectors, forms.

const VOID = new Set('area base br col embed hr img input link meta source track wbr param frame keygen'.split(' '));
const RAW = new Set('script style textarea title xmp iframe noembed noframes'.split(' '));
// A picture of one pixel, which stands for every drawing that is saved.
const BLANK = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII=';
const MAX_NODES = 30000;
let nodeCount = 0, isLoading = false, hasNewInputs = false;

class Node extends EventTarget {
  constructor(type, name) {
    super();
    if (++nodeCount > MAX_NODES) throw new RangeError('too many nodes');
    this.nodeType = type; this.nodeName = name; this.parentNode = null; this.$list = [];
  }
  get childNodes() { return this.$list; }
  get parentElement() { return this.parentNode && this.parentNode.nodeType === 1 ? this.parentNode : null; }
  get ownerDocument() { return document; }
  get isConnected() { return true; }
  get baseURI() { return location.href; }
  get firstChild() { return this.$list[0] || null; }
  get lastChild() { return this.$list[this.$list.length - 1] || null; }
  get nextSibling() { return siblingOf(this, 1, false); }
  get previousSibling() { return siblingOf(this, -1, false); }
  get nextElementSibling() { return siblingOf(this, 1, true); }
  get previousElementSibling() { return siblingOf(this, -1, true); }
  get nodeValue() { return this.nodeType === 1 ? null : this.data; }
  set nodeValue(value) { if (this.nodeType !== 1) this.data = toText(value); }
  get textContent() { return this.nodeType === 3 || this.nodeType === 8 ? this.data : collectText(this); }
  set textContent(value) {
    if (this.nodeType === 3 || this.nodeType === 8) { this.data = toText(value); return; }
    this.$list.length = 0;
    if (value !== null && value !== '') this.appendChild(new Text(value));
    if (this.localName === 'script') queueScript(this);
  }
  hasChildNodes() { return this.$list.length > 0; }
  contains(other) { for (; other; other = other.parentNode) if (other === this) return true; return false; }
  appendChild(node) { return this.insertBefore(node, null); }
  insertBefore(node, before) {
    if (!node || node.nodeType === undefined) throw new TypeError('parameter 1 is not of type \'Node\'');
    if (node.nodeType === 11) { for (const each of slice(node.$list)) this.insertBefore(each, before); return node; }
    if (node.$list.length && node.contains(this)) throw new Error('HierarchyRequestError');
    if (node.parentNode) node.parentNode.removeChild(node);
    const place = before ? this.$list.indexOf(before) : -1;
    if (place < 0) this.$list.push(node); else this.$list.splice(place, 0, node);
    node.parentNode = this;
    connectNode(node);
    return node;
  }
  removeChild(node) {
    const place = this.$list.indexOf(node);
    if (place >= 0) { this.$list.splice(place, 1); node.parentNode = null; }
    return node;
  }
  replaceChild(node, old) { this.insertBefore(node, old); return this.removeChild(old); }
  remove() { if (this.parentNode) this.parentNode.removeChild(this); }
  append(...given) { for (const each of given) this.appendChild(each && each.nodeType ? each : new Text(each)); }
  prepend(...given) { const first = this.firstChild; for (const each of given) this.insertBefore(each && each.nodeType ? each : new Text(each), first); }
  before(...given) { if (this.parentNode) for (const each of given) this.parentNode.insertBefore(each && each.nodeType ? each : new Text(each), this); }
  after(...given) { if (this.parentNode) for (const each of given) this.parentNode.insertBefore(each && each.nodeType ? each : new Text(each), this.nextSibling); }
  replaceWith(...given) { this.before(...given); this.remove(); }
  replaceChildren(...given) { this.$list.length = 0; this.append(...given); }
  cloneNode(deep) { return cloneNode(this, deep, 0); }
  normalize() {}
  getRootNode() { return document; }
  isEqualNode(other) { return this === other; }
  isSameNode(other) { return this === other; }
  compareDocumentPosition() { return 4; }
}
function siblingOf(node, step, onlyElements) {
  if (!node.parentNode) return null;
  const list = node.parentNode.$list;
  for (let i = list.indexOf(node) + step; i >= 0 && i < list.length; i += step) {
    if (!onlyElements || list[i].nodeType === 1) return list[i];
  }
  return null;
}
function visit(root, call) {
  const waiting = slice(root.$list).reverse();
  while (waiting.length) {
    const node = waiting.pop();
    if (call(node) === false) return;
    for (let i = node.$list.length - 1; i >= 0; i--) waiting.push(node.$list[i]);
  }
}
function collectText(root) {
  let text = '';
  visit(root.localName === 'template' ? root.content : root, node => { if (node.nodeType === 3) text += node.data; });
  return text;
}
function cloneNode(node, deep, depth) {
  let copy;
  if (node.nodeType === 3) return new Text(node.data);
  if (node.nodeType === 8) return new Comment(node.data);
  if (node.nodeType === 11) copy = new DocumentFragment();
  else {
    copy = makeElement(node.localName);
    for (const name of keysOf(node.$marks)) copy.$marks[name] = node.$marks[name];
  }
  if (deep && depth < 200) {
    for (const each of node.$list) { const inner = cloneNode(each, true, depth + 1); copy.$list.push(inner); inner.parentNode = copy; }
    if (node.inner) for (const each of node.inner.$list) copy.content.$list.push(cloneNode(each, true, depth + 1));
  }
  return copy;
}
class CharacterData extends Node {
  constructor(type, name, data) { super(type, name); this.data = toText(data); }
  get length() { return this.data.length; }
  get wholeText() { return this.data; }
  substringData(from, count) { return this.data.substr(from, count); }
  splitText(place) { const rest = new Text(this.data.slice(place)); this.data = this.data.slice(0, place); return rest; }
}
class Text extends CharacterData { constructor(data) { super(3, '#text', data === undefined ? '' : data); } }
class Comment extends CharacterData { constructor(data) { super(8, '#comment', data === undefined ? '' : data); } }

const ESCAPES = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };
const escapeText = text => /[&<>"]/.test(text) ? text.replace(/[&<>"]/g, mark => ESCAPES[mark]) : text;
function writeMarkup(root, depth) {
  let out = '';
  for (const node of (root.inner || root).$list) {
    if (node.nodeType === 3) out += RAW.has(root.localName) ? node.data : escapeText(node.data);
    else if (node.nodeType === 8) out += '<!--' + node.data + '-->';
    else if (node.nodeType === 1) out += writeElement(node, depth);
  }
  return out;
}
function writeElement(node, depth) {
  let out = '<' + node.localName;
  for (const name of keysOf(node.$marks)) out += ' ' + name + '="' + escapeText(node.$marks[name]) + '"';
  if (VOID.has(node.localName)) return out + '>';
  return out + '>' + (depth > 200 ? '' : writeMarkup(node, (depth || 0) + 1)) + '</' + node.localName + '>';
}

// A reader of markup for what scripts write; the page itself was read before.
const TAG = /<!--([\s\S]*?)(?:-->|$)|<(\/?)([a-zA-Z][^\s\/>]*)((?:[^>"']|"[^"]*"|'[^']*')*)>|<[!?][^>]*>?/g;
const MARK = /([^\s=\/"'<>]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>"']+)))?/g;
const ENTITIES = { amp: '&', lt: '<', gt: '>', quot: '"', apos: '\'', nbsp: '\u00a0' };
const unescapeText = text => text.indexOf('&') < 0 ? text : text.replace(/&(#x[0-9a-f]{1,6}|#\d{1,7}|\w{2,8});?/gi, (all, name) => {
  if (name[0] !== '#') return name.toLowerCase() in ENTITIES ? ENTITIES[name.toLowerCase()] : all;
  const code = name[1] === 'x' || name[1] === 'X' ? parseInt(name.slice(2), 16) : parseInt(name.slice(1), 10);
  return code < 0x110000 ? String.fromCodePoint(code) : '\ufffd';
});
function readMarkup(html, root, isWritten) {
  html = toText(html).slice(0, 3000000);
  let place = 0, count = 0, open = [root];
  const add = node => {
    const above = open[open.length - 1], parent = above.localName === 'template' ? above.content : above;
    parent.$list.push(node); node.parentNode = parent;
  };
  TAG.lastIndex = 0;
  for (let match; (match = TAG.exec(html)) && ++count < 20000;) {
    if (match.index > place) add(new Text(unescapeText(html.slice(place, match.index))));
    place = TAG.lastIndex;
    if (match[1] !== undefined) { add(new Comment(match[1])); continue; }
    if (match[3] === undefined) continue;
    const name = match[3].toLowerCase();
    if (match[2]) {
      for (let i = open.length - 1; i > 0; i--) if (open[i].localName === name) { open.length = i; break; }
      continue;
    }
    const element = makeElement(name);
    MARK.lastIndex = 0;
    for (let mark; (mark = MARK.exec(match[4]));) {
      const key = mark[1].toLowerCase();
      if (!(key in element.$marks)) element.$marks[key] = unescapeText(mark[2] !== undefined ? mark[2] : mark[3] !== undefined ? mark[3] : mark[4] || '');
    }
    add(element);
    if (VOID.has(name) || (match[4] && match[4].endsWith('/') && name !== 'script')) continue;
    if (RAW.has(name)) {
      const rest = html.slice(place), end = rest.search(new RegExp('</' + name + '[\\s/>]', 'i'));
      const text = end < 0 ? rest : rest.slice(0, end);
      if (text) { const inside = new Text(name === 'textarea' || name === 'title' ? unescapeText(text) : text); element.$list.push(inside); inside.parentNode = element; }
      place = end < 0 ? html.length : html.indexOf('>', place + end) + 1 || html.length;
      TAG.lastIndex = place;
    } else if (open.length < 300) open.push(element);
    if (open.length === 1) place = TAG.lastIndex;
  }
  if (place < html.length) add(new Text(unescapeText(html.slice(place))));
  for (const node of slice(root.$list)) connectTree(node, isWritten);
}
function connectTree(node, runsScripts) {
  connectNode(node, runsScripts);
  if (node.$list.length) visit(node, each => { connectNode(each, runsScripts); });
}

// What happens when a node comes into the document: scripts run, frames and pictures load, handlers wait.
function connectNode(node, runsScripts) {
  if (node.nodeType !== 1 || node.isKnown) return;
  node.isKnown = true;
  const name = node.localName, marks = node.$marks, keys = keysOf(marks);
  if (!keys.length && name !== 'script' && name !== 'style' && !customs.size) return;
  nameElement(node);
  if (name === 'script' && runsScripts !== false) queueScript(node);
  for (const key of keys) if (key[0] === 'o' && key[1] === 'n') registerMark(node, key, marks[key]);
  if (marks.href && isScriptLink(marks.href)) registerLink(node, marks.href);
  if (marks.action && isScriptLink(marks.action)) registerLink(node, marks.action);
  if (marks.srcdoc) readMarkup(marks.srcdoc, new DocumentFragment(), true);
  const source = marks.src || marks.data || '';
  if (source && name !== 'script') loadSource(node, source);
  if (name === 'style' && !isLoading) readSheet(collectText(node));
  const custom = customs.get(name);
  if (custom) callCustom(node, custom);
}
const isScriptLink = text => /^[\x00-\x20]*j[\s]*a[\s]*v[\s]*a[\s]*s[\s]*c[\s]*r[\s]*i[\s]*p[\s]*t[\s]*:/i.test(toText(text).slice(0, 200));
const readScriptLink = text => { const code = toText(text).replace(/^[^:]*:/, ''); try { return decodeURIComponent(code); } catch (fault) { return code; } };
function registerLink(node, text) { register(node, 'click', () => { const made = runCode(readScriptLink(text), 'link'); if (typeof made === 'string') writePage(made); }); }
function registerMark(node, key, code) {
  const run = event => { note('code', 'handler', code); return apply(new NativeFunction('event', prepareCode(code)), node, [event]); };
  register(node, key.slice(2).toLowerCase(), run);
}
const queued = setPrototype([], null);
let queuePlace = 0;
function queueScript(node) {
  if (node.isQueued) return;
  const type = (node.$marks.type || '').trim().toLowerCase(), source = node.$marks.src || node.$marks.href || node.$marks['xlink:href'] || '';
  if (type && !/(?:java|ecma|j|live)script|^module$|babel/.test(type)) return;
  if (source) {
    hide(node, 'isQueued', true);
    const content = readAddress(source);
    if (content !== null) addScript(node, content);
    else { note('request', 'GET', resolveAddress(source), '', 'script', trigger); takeLibrary(source); }
    addTask(() => { if (node.onload) callListener(node, 'load', node.onload); });
    return;
  }
  const text = collectText(node);
  if (text.trim()) { hide(node, 'isQueued', true); addScript(node, text); }
}
function addScript(node, text) { if (queued.length < 500) { note('code', 'script', text); queued[queued.length] = { node, text: prepareCode(text), isModule: node.$marks.type === 'module' }; } }

// Attributes that are properties, too.
const TEXTS = ('id name title lang dir alt rel target method enctype type placeholder htmlFor:for httpEquiv:http-equiv media charset ' +
  'accept pattern className:class accessKey coords shape label slot nonce integrity crossOrigin:crossorigin ' +
  'referrerPolicy sandbox allow scope headers autocomplete inputMode acceptCharset contentEditable').split(' ');
const FLAGS = 'disabled checked hidden async defer required readOnly:readonly multiple selected autofocus noValidate:novalidate open autoplay loop muted'.split(' ');
class Element extends Node {
  constructor(name) { super(1, name.toUpperCase()); this.localName = name; this.$marks = makeObject(null); }
  get tagName() { return this.nodeName; }
  get namespaceURI() { return 'http://www.w3.org/1999/xhtml'; }
  get prefix() { return null; }
  get children() { return makeCollection(this.$list.filter(each => each.nodeType === 1)); }
  get childElementCount() { return this.children.length; }
  get firstElementChild() { return this.children[0] || null; }
  get lastElementChild() { const all = this.children; return all[all.length - 1] || null; }
  get attributes() { const all = keysOf(this.$marks).map(name => ({ name, value: this.$marks[name], nodeName: name, nodeValue: this.$marks[name] })); for (const each of all) all[each.name] = each; all.getNamedItem = name => all[name] || null; all.item = i => all[i]; return all; }
  get innerHTML() { return writeMarkup(this, 0); }
  set innerHTML(html) { const inside = this.inner || this; inside.$list.length = 0; setMarkup(this, html, inside); }
  get outerHTML() { return writeElement(this, 0); }
  set outerHTML(html) { setMarkup(this, html, this.parentNode || this); }
  get innerText() { return collectText(this); }
  set innerText(value) { this.textContent = value; }
  get outerText() { return collectText(this); }
  get text() { return collectText(this); }
  set text(value) { this.textContent = value; }
  get style() { if (!this.look) hide(this, 'look', makeStyle(this.$marks.style || '')); return this.look; }
  set style(value) { this.style.cssText = value; }
  get dataset() { if (!this.data_) hide(this, 'data_', makeDataset(this)); return this.data_; }
  get classList() { return makeClassList(this); }
  get content() { if (this.localName === 'meta') return this.$marks.content || ''; if (!this.inner) hide(this, 'inner', new DocumentFragment()); return this.inner; }
  set content(value) { this.$marks.content = toText(value); }
  get href() { const text = this.$marks.href; if (this.namespace === 'svg') return { baseVal: text || '', animVal: text || '' }; return text === undefined ? '' : resolveAddress(text); }
  set href(value) { this.setAttribute('href', value); }
  get src() { return this.$marks.src === undefined ? '' : resolveAddress(this.$marks.src); }
  set src(value) { this.setAttribute('src', value); }
  get srcdoc() { return this.$marks.srcdoc || ''; }
  set srcdoc(value) { this.setAttribute('srcdoc', value); }
  get data() { return this.$marks.data || ''; }
  set data(value) { this.setAttribute('data', value); }
  get download() { return this.$marks.download || ''; }
  set download(value) { this.setAttribute('download', value); }
  get action() { return this.$marks.action === undefined ? location.href : resolveAddress(this.$marks.action); }
  set action(value) { this.setAttribute('action', value); }
  get value() { return this.typed !== undefined ? this.typed : this.localName === 'textarea' ? collectText(this) : this.localName === 'select' ? readSelected(this) : this.$marks.value || ''; }
  set value(value) { hide(this, 'typed', toText(value)); }
  get defaultValue() { return this.$marks.value || ''; }
  get valueAsNumber() { return +this.value; }
  get files() { return this.localName === 'input' && this.$marks.type === 'file' ? [] : undefined; }
  get form() { return this.closest('form'); }
  get elements() { return makeCollection(selectAll(this, 'input,select,textarea,button')); }
  get options() { return makeCollection(selectAll(this, 'option')); }
  get rows() { return makeCollection(selectAll(this, 'tr')); }
  get cells() { return makeCollection(selectAll(this, 'td,th')); }
  get selectedIndex() { return 0; }
  set selectedIndex(value) {}
  get sheet() { return { cssRules: [], insertRule() { return 0; }, deleteRule() {} }; }
  get contentDocument() { return this.localName === 'iframe' || this.localName === 'object' ? frameDocument(this) : undefined; }
  get contentWindow() { return this.localName === 'iframe' ? frameWindow(this) : undefined; }
  get shadowRoot() { return this.shadow || null; }
  get protocol() { return splitAddress(this.href).protocol; }
  get host() { return splitAddress(this.href).host; }
  get hostname() { return splitAddress(this.href).hostname; }
  get pathname() { return splitAddress(this.href).pathname; }
  get search() { return splitAddress(this.href).search; }
  get hash() { return splitAddress(this.href).hash; }
  get origin() { return splitAddress(this.href).origin; }
  get relList() { return makeClassList(this); }
  get naturalWidth() { return this.pixels ? this.pixels.width : 1; }
  get naturalHeight() { return this.pixels ? this.pixels.height : 1; }
  get complete() { return true; }
  get clientWidth() { return 1280; }
  get clientHeight() { return 720; }
  get offsetWidth() { return 300; }
  get offsetHeight() { return 40; }
  get offsetTop() { return 0; }
  get offsetLeft() { return 0; }
  get offsetParent() { return document.body; }
  get scrollHeight() { return 720; }
  get scrollWidth() { return 1280; }
  get validity() { return { valid: true }; }
  attachShadow() { hide(this, 'shadow', new DocumentFragment()); this.shadow.host = this; return this.shadow; }
  attachInternals() { return makeAnything('internals'); }
  getAttribute(name) { name = toText(name).toLowerCase(); return name in this.$marks ? this.$marks[name] : null; }
  getAttributeNS(_, name) { name = toText(name); return name in this.$marks ? this.$marks[name] : 'xlink:' + name in this.$marks ? this.$marks['xlink:' + name] : null; }
  getAttributeNode(name) { name = toText(name).toLowerCase(); return name in this.$marks ? { name, value: this.$marks[name] } : null; }
  getAttributeNames() { return keysOf(this.$marks); }
  hasAttribute(name) { return toText(name).toLowerCase() in this.$marks; }
  hasAttributes() { return keysOf(this.$marks).length > 0; }
  removeAttribute(name) { delete this.$marks[toText(name).toLowerCase()]; }
  toggleAttribute(name) { name = toText(name).toLowerCase(); if (name in this.$marks) delete this.$marks[name]; else this.$marks[name] = ''; return name in this.$marks; }
  setAttributeNS(_, name, value) { this.setAttribute(name, value); }
  setAttributeNode(node) { this.setAttribute(node.name, node.value); }
  setAttribute(name, value) { setMark(this, toText(name).toLowerCase(), toText(value)); }
  getElementsByTagName(name) { return makeCollection(selectAll(this, toText(name))); }
  getElementsByTagNameNS(_, name) { return makeCollection(selectAll(this, toText(name))); }
  getElementsByClassName(names) { return makeCollection(selectAll(this, toText(names).trim().split(/\s+/).map(each => '.' + each).join(''))); }
  querySelector(text) { return selectAll(this, toText(text), 1)[0] || null; }
  querySelectorAll(text) { return makeCollection(selectAll(this, toText(text))); }
  matches(text) { return toText(text).split(',').some(each => matchesSelector(this, each.trim())); }
  closest(text) { for (let node = this; node && node.nodeType === 1; node = node.parentNode) if (node.matches(text)) return node; return null; }
  insertAdjacentHTML(place, html) { setMarkup(this, html, /begin|end/.test(place) && /^(?:afterbegin|beforeend)$/.test(place) ? this : this.parentNode || this); }
  insertAdjacentElement(_, node) { return this.appendChild(node); }
  insertAdjacentText(_, text) { this.appendChild(new Text(text)); }
  setHTMLUnsafe(html) { this.innerHTML = html; }
  click() { clickElement(this); }
  submit() { sendForm(this); }
  requestSubmit() { sendForm(this); }
  reset() {}
  focus() { document.activeElement = this; }
  blur() {}
  select() { document.activeElement = this; selected = this; }
  setSelectionRange() { selected = this; document.activeElement = this; }
  checkValidity() { return true; }
  reportValidity() { return true; }
  setCustomValidity() {}
  scrollIntoView() {}
  scrollTo() {}
  getBoundingClientRect() { return { x: 0, y: 0, top: 0, left: 0, right: 300, bottom: 40, width: 300, height: 40 }; }
  getClientRects() { return [this.getBoundingClientRect()]; }
  animate() { return makeAnything('animation'); }
  showModal() {}
  show() {}
  close() {}
  play() { return resolved(); }
  pause() {}
  load() {}
  canPlayType() { return ''; }
  requestFullscreen() { note('fullscreen', trigger); return resolved(); }
  getContext(kind) { return this.localName === 'canvas' ? drawingOn(this, toText(kind)) : null; }
  toDataURL() { return 'data:image/png;base64,' + BLANK; }
  toBlob(call) { call(new Blob([viewOf(nativeAtob(BLANK))], { type: 'image/png' })); }
  add(node) { if (node && node.nodeType) this.appendChild(node); }
  item(place) { return this.children[place] || null; }
  getBBox() { return { x: 0, y: 0, width: 100, height: 20 }; }
  getComputedTextLength() { return 100; }
  getTotalLength() { return 100; }
  getPointAtLength() { return { x: 0, y: 0 }; }
  getCTM() { return { a: 1, b: 0, c: 0, d: 1, e: 0, f: 0, inverse() { return this; } }; }
  getScreenCTM() { return this.getCTM(); }
  setPointerCapture() {}
  releasePointerCapture() {}
  insertRow() { return this.appendChild(makeElement('tr')); }
  insertCell() { return this.appendChild(makeElement('td')); }
}
for (const each of TEXTS) {
  const [key, mark = key.toLowerCase()] = each.split(':');
  define(Element.prototype, key, { configurable: true, enumerable: true,
    get() { return this.$marks[mark] === undefined ? key === 'type' && this.localName === 'input' ? 'text' : '' : this.$marks[mark]; },
    set(value) { setMark(this, mark, toText(value)); } });
}
for (const mark of ['width', 'height']) {
  define(Element.prototype, mark, { configurable: true, enumerable: true,
    get() { return mark in this.$marks ? parseInt(this.$marks[mark], 10) || 0 : this.localName === 'canvas' ? mark === 'width' ? 300 : 150 : this.pixels ? this.pixels[mark] : 0; },
    set(value) { this.$marks[mark] = toText(value); } });
}
for (const each of FLAGS) {
  const [key, mark = key.toLowerCase()] = each.split(':');
  define(Element.prototype, key, { configurable: true, enumerable: true,
    get() { return mark in this.$marks; }, set(value) { if (value) this.$marks[mark] = ''; else delete this.$marks[mark]; } });
}
class DocumentFragment extends Node {
  constructor() { super(11, '#document-fragment'); this.$marks = makeObject(null); }
  set innerHTML(html) { this.$list.length = 0; setMarkup(this, html, this); }
  get innerHTML() { return writeMarkup(this, 0); }
}
for (const name of ['children', 'firstElementChild', 'lastElementChild', 'childElementCount', 'querySelector', 'querySelectorAll', 'getElementsByTagName',
  'getElementsByTagNameNS', 'getElementsByClassName']) define(DocumentFragment.prototype, name, Object.getOwnPropertyDescriptor(Element.prototype, name));
give(DocumentFragment.prototype, { getElementById(id) { return findById(this, id); } });

function setMark(node, name, value) {
  node.$marks[name] = value;
  if (name[0] === 'o' && name[1] === 'n') registerMark(node, name, value);
  else if (name === 'href' && isScriptLink(value)) registerLink(node, value);
  else if (name === 'src' || (name === 'data' && node.localName === 'object')) { if (node.localName === 'script') { if (node.isKnown) queueScript(node); } else loadSource(node, value); }
  else if (name === 'srcdoc') { note('markup', value, trigger); readMarkup(value, new DocumentFragment(), true); }
  else if (name === 'style') { if (node.look) node.look.cssText = value; }
  else if (name === 'id' || name === 'name') nameElement(node);
}
function setMarkup(node, html, root) {
  html = toText(html);
  if (node.localName === 'script') { node.textContent = html; return; }
  if (html.length > 12 && (html.indexOf('<') >= 0 || html.startsWith(ANSWER) || html.startsWith(SECRET))) note('markup', html, trigger);
  readMarkup(html, root, false);
}
const namedElements = new NativeMap();
function nameElement(node) {
  for (const name of [node.$marks.id, node.localName === 'form' || node.localName === 'img' || node.localName === 'iframe' ? node.$marks.name : undefined]) {
    if (!name || namedElements.has(name) || namedElements.size > 5000) continue;
    namedElements.set(name, node);
    if (!(name in window)) define(window, name, { configurable: true, enumerable: false, get: () => node, set(value) { define(window, name, { value, writable: true, configurable: true, enumerable: true }); } });
  }
  if (node.$marks.name && (node.localName === 'input' || node.localName === 'textarea' || node.localName === 'select' || node.localName === 'button')) {
    const form = node.closest('form');
    if (form && !(node.$marks.name in form)) hide(form, node.$marks.name, node);
  }
  if (node.localName === 'form' && node.$marks.name && !(node.$marks.name in document)) hide(document, node.$marks.name, node);
}
const collectionMembers = { item(place) { return this[place] || null; }, namedItem(name) { return this.find(each => each.$marks.id === name || each.$marks.name === name) || null; } };
function makeCollection(list) {
  for (const each of list) { const key = each.$marks && (each.$marks.name || each.$marks.id); if (key && !(key in list)) hide(list, key, each); }
  return Object.assign(list, collectionMembers);
}
function findById(root, id) {
  id = toText(id);
  let found = namedElements.get(id);
  if (found && found.$marks.id === id) return found;
  found = null;
  visit(root, node => { if (node.nodeType === 1 && node.$marks.id === id) { found = node; return false; } return true; });
  return found;
}
const readSelected = node => { const option = selectAll(node, 'option[selected]', 1)[0] || selectAll(node, 'option', 1)[0]; return option ? option.$marks.value !== undefined ? option.$marks.value : collectText(option) : ''; };

// Selectors: lists, the four combinators, tags, ids, classes, attributes and the usual pseudo-classes.
const SIMPLE = /^([\w*|-]+)?((?:#(?:[\w-]|\\.|[^\x00-\x7f])+|\.(?:[\w-]|\\.|[^\x00-\x7f])+|\[[^\]]+\]|::?[\w-]+(?:\([^()]*\))?)*)$/;
const PIECE = /#((?:[\w-]|\\.|[^\x00-\x7f])+)|\.((?:[\w-]|\\.|[^\x00-\x7f])+)|\[\s*([^\]~|^$*=\s]+)\s*(?:([~|^$*]?)=\s*(?:"([^"]*)"|'([^']*)'|([^\]\s]*))\s*[is]?)?\]|::?([\w-]+)(?:\(([^()]*)\))?/g;
function matchesSimple(node, text) {
  const match = SIMPLE.exec(text);
  if (!match) return false;
  if (match[1] && match[1] !== '*' && match[1].toLowerCase().replace(/^.*\|/, '') !== node.localName) return false;
  if (match[2]) for (const piece of match[2].matchAll(PIECE)) {
    if (piece[1] !== undefined) { if (node.$marks.id !== piece[1].replace(/\\/g, '')) return false; }
    else if (piece[2] !== undefined) { if ((' ' + (node.$marks.class || '').replace(/\s/g, ' ') + ' ').indexOf(' ' + piece[2].replace(/\\/g, '') + ' ') < 0) return false; }
    else if (piece[3] !== undefined) {
      const have = node.$marks[piece[3].toLowerCase()], want = piece[5] !== undefined ? piece[5] : piece[6] !== undefined ? piece[6] : piece[7];
      if (have === undefined) return false;
      if (want === undefined) continue;
      const how = piece[4];
      if (!(how === '' ? have === want : how === '^' ? have.startsWith(want) : how === '$' ? have.endsWith(want) : how === '*' ? have.includes(want) : (' ' + have + ' ').includes(' ' + want + ' ') || have.startsWith(want + '-'))) return false;
    } else if (!matchesPseudo(node, piece[8], piece[9])) return false;
  }
  return true;
}
function matchesPseudo(node, name, given) {
  const among = node.parentNode ? node.parentNode.$list.filter(each => each.nodeType === 1) : [node];
  switch (name) {
    case 'first-child': return among[0] === node;
    case 'last-child': return among[among.length - 1] === node;
    case 'only-child': return among.length === 1;
    case 'nth-child': return given === 'odd' ? among.indexOf(node) % 2 === 0 : given === 'even' ? among.indexOf(node) % 2 === 1 : among[+given - 1] === node;
    case 'first-of-type': return among.filter(each => each.localName === node.localName)[0] === node;
    case 'nth-of-type': return among.filter(each => each.localName === node.localName)[+given - 1] === node;
    case 'not': return !matchesSimple(node, given.trim());
    case 'is': case 'where': return given.split(',').some(each => matchesSimple(node, each.trim()));
    case 'empty': return node.$list.length === 0;
    case 'checked': return 'checked' in node.$marks;
    case 'disabled': return 'disabled' in node.$marks;
    case 'hover': case 'focus': case 'active': return false;
    default: return true;
  }
}
const SPLIT = /\s*([>+~])\s*|\s+/;
function matchesSelector(node, text) {
  const parts = text.split(SPLIT).map(each => each === undefined ? ' ' : each).filter(each => each !== '');
  if (!parts.length || !matchesSimple(node, parts[parts.length - 1])) return false;
  for (let i = parts.length - 2; i > 0; i -= 2) {
    const how = parts[i], wanted = parts[i - 1];
    if (how === '>') { node = node.parentNode; if (!node || node.nodeType !== 1 || !matchesSimple(node, wanted)) return false; }
    else if (how === '+') { node = node.previousElementSibling; if (!node || !matchesSimple(node, wanted)) return false; }
    else if (how === '~') { do node = node.previousElementSibling; while (node && !matchesSimple(node, wanted)); if (!node) return false; }
    else { do node = node.parentNode; while (node && node.nodeType === 1 && !matchesSimple(node, wanted)); if (!node || node.nodeType !== 1) return false; }
  }
  return true;
}
let selectorWork = 0;
function selectAll(root, text, most) {
  const found = [], choices = text.split(/,(?![^(\[]*[)\]])/).map(each => each.trim()).filter(each => each);
  const only = choices.length === 1 && /^#[\w-]+$/.test(choices[0]) && root === document ? findById(root, choices[0].slice(1)) : null;
  if (only) return [only];
  visit(root, node => {
    if (node.nodeType !== 1) return true;
    if (++selectorWork > 400000) return false;
    for (const each of choices) if (matchesSelector(node, each)) { found.push(node); break; }
    return !(most && found.length >= most);
  });
  return found;
}

// Styles: what is set is kept; custom properties of sheets are known to getComputedStyle.
const customProperties = makeObject(null), contentRules = [];
function readSheet(text) {
  for (const match of toText(text).slice(0, 2000000).matchAll(/(--[\w-]+)\s*:\s*([^;}]*)/g)) if (!(match[1] in customProperties)) customProperties[match[1]] = match[2].trim();
  for (const match of toText(text).slice(0, 2000000).matchAll(/([^{}]{1,300})\{([^{}]*)\}/g)) if (contentRules.length < 300) contentRules.push([match[1].trim(), match[2]]);
}
const toDashes = name => name.replace(/[A-Z]/g, letter => '-' + letter.toLowerCase());
function makeStyle(text) {
  const kept = makeObject(null);
  const read = css => { for (const match of toText(css).matchAll(/([\w-]+)\s*:\s*((?:[^;"']|"[^"]*"|'[^']*')*)/g)) kept[match[1].toLowerCase()] = match[2].trim(); };
  read(text);
  const members = { setProperty(name, value) { kept[toText(name)] = toText(value); }, getPropertyValue: name => kept[toText(name)] || '', removeProperty(name) { const old = kept[name] || ''; delete kept[name]; return old; },
    getPropertyPriority: () => '', item: place => keysOf(kept)[place] || '' };
  return new NativeProxy(members, {
    get: (_, key) => typeof key === 'symbol' ? undefined : key in members ? members[key] : key === 'cssText' ? keysOf(kept).map(name => name + ': ' + kept[name] + ';').join(' ') : key === 'length' ? keysOf(kept).length : kept[toDashes(key)] || '',
    set: (_, key, value) => { if (key === 'cssText') { for (const name of keysOf(kept)) delete kept[name]; read(value); } else if (typeof key !== 'symbol') kept[toDashes(key)] = toText(value); return true; },
    has: (_, key) => typeof key === 'string', ownKeys: () => ['setProperty', 'getPropertyValue', 'removeProperty', 'getPropertyPriority', 'item'] });
}
function computeStyle(node, pseudo) {
  const own = makeObject(null);
  for (const [selector, body] of contentRules) {
    const bare = pseudo ? selector.replace(/::?(?:before|after)/, '') : selector;
    if (pseudo && bare === selector) continue;
    let fits = false;
    try { fits = node && node.matches && (bare === ':root' || bare === 'html' || bare === '' || node.matches(bare)); } catch (fault) { /* a selector that is not read */ }
    if (fits) for (const match of body.matchAll(/([\w-]+)\s*:\s*((?:[^;"']|"[^"]*"|'[^']*')*)/g)) own[match[1].toLowerCase()] = match[2].trim();
  }
  const read = name => {
    name = toDashes(toText(name));
    const inline = node && node.style ? node.style.getPropertyValue(name) : '';
    if (inline && !pseudo) return inline;
    if (name in own) return own[name];
    if (name in customProperties) return customProperties[name];
    return name === 'display' ? 'block' : name === 'visibility' ? 'visible' : name === 'opacity' ? '1' : name === 'font-size' ? '16px' : '';
  };
  return new NativeProxy({ getPropertyValue: read }, { get: (target, key) => typeof key === 'symbol' ? undefined : key === 'getPropertyValue' ? read : key === 'length' ? 0 : read(key) });
}
function makeDataset(node) {
  return new NativeProxy({}, {
    get: (_, key) => typeof key === 'symbol' ? undefined : node.$marks['data-' + toDashes(key)],
    set: (_, key, value) => { node.$marks['data-' + toDashes(toText(key))] = toText(value); return true; },
    has: (_, key) => typeof key === 'string' && 'data-' + toDashes(key) in node.$marks,
    ownKeys: () => keysOf(node.$marks).filter(name => name.startsWith('data-')).map(name => name.slice(5).replace(/-(.)/g, (_, letter) => letter.toUpperCase())),
    getOwnPropertyDescriptor: (_, key) => ({ value: node.$marks['data-' + toDashes(key)], enumerable: true, configurable: true, writable: true }) });
}
function makeClassList(node) {
  const read = () => (node.$marks.class || '').split(/\s+/).filter(each => each);
  const write = all => { node.$marks.class = all.join(' '); };
  const list = read();
  return Object.assign(list, { add(...names) { write([...new Set([...read(), ...names])]); }, remove(...names) { write(read().filter(each => names.indexOf(each) < 0)); },
    contains: name => read().indexOf(name) >= 0, toggle(name, force) { const has = read().indexOf(name) >= 0, want = force === undefined ? !has : !!force; if (want) this.add(name); else this.remove(name); return want; },
    replace(old, name) { this.remove(old); this.add(name); }, item: place => read()[place] || null, get value() { return node.$marks.class || ''; } });
}

// Elements that have a class of their own in a browser.
const elementClasses = makeObject(null);
const classNames = { a: 'Anchor', form: 'Form', input: 'Input', button: 'Button', div: 'Div', span: 'Span', p: 'Paragraph', img: 'Image', iframe: 'IFrame', script: 'Script',
  style: 'Style', link: 'Link', meta: 'Meta', textarea: 'TextArea', select: 'Select', option: 'Option', canvas: 'Canvas', template: 'Template', body: 'Body', head: 'Head',
  html: 'Html', table: 'Table', td: 'TableCell', tr: 'TableRow', video: 'Video', audio: 'Audio', object: 'Object', embed: 'Embed', label: 'Label', ul: 'UList', ol: 'OList', li: 'LI',
  dialog: 'Dialog', source: 'Source', base: 'Base', h1: 'Heading', pre: 'Pre', br: 'BR', area: 'Area' };
class HTMLElement extends Element { constructor(name) { super(name || pendingName || 'div'); } }
class SVGElement extends Element { constructor(name) { super(name || 'svg'); } }
let pendingName = '';
hide(window, 'HTMLElement', HTMLElement); hide(window, 'SVGElement', SVGElement);
for (const name of keysOf(classNames)) {
  const made = class extends HTMLElement {};
  define(made, 'name', { value: 'HTML' + classNames[name] + 'Element' });
  elementClasses[name] = made;
  hide(window, made.name, made);
}
class HTMLUnknownElement extends HTMLElement {}
hide(window, 'HTMLUnknownElement', HTMLUnknownElement);
const customs = new NativeMap();
function makeElement(name) {
  name = toText(name).toLowerCase();
  if (name === 'input' || name === 'textarea') hasNewInputs = true;
  const made = elementClasses[name];
  return made ? new made(name) : new HTMLElement(name);
}
// A class of the page extends HTMLElement; the element gets the methods of the class, and the constructor is called.
function callCustom(node, custom) {
  addTask(() => {
    setPrototype(node, custom.prototype);
    pendingName = node.localName;
    try { const made = new custom(); for (const key of keysOf(made)) if (!(key in node)) node[key] = made[key]; if (made.shadow) hide(node, 'shadow', made.shadow); } catch (fault) { noteError(fault); }
    if (node.connectedCallback) node.connectedCallback();
    if (node.attributeChangedCallback) for (const name of keysOf(node.$marks)) node.attributeChangedCallback(name, null, node.$marks[name]);
  });
}

// Forms and clicks, as the reader would use them: fields are filled with marks that are looked for in what is sent.
const filled = new Set();
function fillInputs() {
  if (!hasNewInputs || filled.size > 300) return;
  hasNewInputs = false;
  visit(document, node => {
    if (node.nodeType !== 1 || filled.has(node)) return;
    if (node.localName !== 'input' && node.localName !== 'textarea') return;
    filled.add(node);
    const kind = (node.$marks.type || 'text').toLowerCase();
    if (/^(?:hidden|submit|button|checkbox|radio|reset|image|file|range|color|date)$/.test(kind) || node.value) return;
    hide(node, 'typed', typedInto(node));
  });
}
const isSecret = node => (node.$marks.type || '').toLowerCase() === 'password' || /pass|pwd|secret|pin\b|kennwort|contrase|senha|mot.?de.?passe/i.test((node.$marks.name || '') + ' ' + (node.$marks.id || '') + ' ' + (node.$marks.placeholder || '')) || /text-security/.test(node.$marks.style || '');
const typedInto = node => isSecret(node) ? PASSWORD : /mail|user|login|account|konto/i.test((node.$marks.type || '') + (node.$marks.name || '') + (node.$marks.id || '') + (node.$marks.placeholder || '')) ? ACCOUNT : TYPED;
function sendForm(form) {
  if (!form || form.localName !== 'form') { form = form && form.closest ? form.closest('form') : null; }
  if (!form) return;
  let body = '';
  for (const node of selectAll(form, 'input,textarea,select')) body += '&' + (node.$marks.name || '') + '=' + node.value;
  note('request', (form.$marks.method || 'GET').toUpperCase(), form.action, body.slice(1), 'form', trigger);
}
function clickElement(node) {
  for (let i = 0, count = 0; i < registered.length && count < 20; i++) {
    const each = registered[i];
    if (each.type === 'click' && each.target === node) { count++; const event = callListener(node, 'click', each.listener); if (event && event.defaultPrevented) return; }
  }
  for (let inner = node; inner && inner.nodeType === 1; inner = inner.parentNode) {
    if (inner.localName === 'a' || inner.localName === 'area') {
      const target = inner.$marks.href || inner.$marks['xlink:href'];
      if (target === undefined) return;
      if (isScriptLink(target)) runCode(readScriptLink(target), 'link');
      else if ('download' in inner.$marks || /^(?:blob|data):/i.test(target)) saveAddress(target, inner.$marks.download || '');
      else follow(target, 'click');
      return;
    }
    if ((inner.localName === 'button' && (inner.$marks.type || 'submit') === 'submit') || (inner.localName === 'input' && /submit|image/.test(inner.$marks.type || ''))) { if (inner.form) sendForm(inner.form); return; }
  }
}

let selected = null, written = '';
function writePage(html) {
  html = toText(html);
  written += html;
  note('write', html, trigger);
  const root = document.body || document;
  readMarkup(html, root, true);
}

function childNamed(node, name) { if (node) for (let i = 0; i < node.$list.length; i++) if (node.$list[i].localName === name) return node.$list[i]; return null; }
class Document extends Node {
  constructor() { super(9, '#document'); this.$marks = makeObject(null); this.cookie = ''; this.readyState = 'loading'; this.activeElement = null; this.currentScript = null; this.hidden = false; this.visibilityState = 'visible'; this.designMode = 'off'; this.domain = ''; this.referrer = ''; this.characterSet = this.charset = this.inputEncoding = 'UTF-8'; this.compatMode = 'CSS1Compat'; this.contentType = 'text/html'; this.doctype = { name: 'html' }; this.fullscreenEnabled = true; this.adoptedStyleSheets = []; this.lastModified = '01/01/2024 00:00:00'; }
  get documentElement() { for (let i = 0; i < this.$list.length; i++) if (this.$list[i].nodeType === 1) return this.$list[i]; return null; }
  get head() { return childNamed(this.documentElement, 'head') || this.documentElement; }
  get body() { return childNamed(this.documentElement, 'body') || childNamed(this.documentElement, 'frameset') || this.documentElement; }
  set body(node) { if (this.documentElement) this.documentElement.appendChild(node); }
  get title() { const node = selectAll(this, 'title', 1)[0]; return node ? collectText(node) : ''; }
  set title(value) {}
  get location() { return location; }
  set location(value) { follow(value, 'location'); }
  get defaultView() { return window; }
  get URL() { return location.href; }
  get documentURI() { return location.href; }
  get forms() { return makeCollection(selectAll(this, 'form')); }
  get images() { return makeCollection(selectAll(this, 'img')); }
  get links() { return makeCollection(selectAll(this, 'a[href]')); }
  get anchors() { return makeCollection(selectAll(this, 'a[name]')); }
  get scripts() { return makeCollection(selectAll(this, 'script')); }
  get styleSheets() { return selectAll(this, 'style').map(node => ({ cssRules: [], rules: [], ownerNode: node, insertRule() { return 0; } })); }
  get all() { return makeCollection(selectAll(this, '*')); }
  get implementation() { return { createHTMLDocument() { const made = new Document(); readMarkup('<html><head></head><body></body></html>', made, false); return made; }, createDocument: () => new Document(), createDocumentType: () => ({}), hasFeature: () => true }; }
  get fonts() { return { ready: resolved(), load: () => resolved([]), check: () => true, add() {}, forEach() {} }; }
  get scrollingElement() { return this.documentElement; }
  get ownerDocument() { return null; }
  getElementById(id) { return findById(this, id); }
  getElementsByName(name) { return makeCollection(selectAll(this, '[name="' + name + '"]')); }
  createElement(name) { return makeElement(name); }
  createElementNS(space, name) { const made = makeElement(toText(name).replace(/^.*:/, '')); if (/svg/.test(space)) hide(made, 'namespace', 'svg'); return made; }
  createTextNode(text) { return new Text(text); }
  createComment(text) { return new Comment(text); }
  createCDATASection(text) { return new Text(text); }
  createDocumentFragment() { return new DocumentFragment(); }
  createAttribute(name) { return { name, value: '' }; }
  createEvent() { return new Event(''); }
  createRange() { return new Range(); }
  createTreeWalker(root, show, filter) { return makeWalker(root, show, filter); }
  createNodeIterator(root, show, filter) { return makeWalker(root, show, filter); }
  createExpression() { lacks('document.createExpression'); return makeAnything('expression'); }
  evaluate(path, root) { return evaluatePath(toText(path), root || this); }
  importNode(node, deep) { return node.cloneNode(deep); }
  adoptNode(node) { return node; }
  write(...given) { writePage(given.join('')); }
  writeln(...given) { writePage(given.join('') + '\n'); }
  open() { return this; }
  close() {}
  execCommand(name, _, value) {
    name = toText(name).toLowerCase();
    if (name === 'copy' || name === 'cut') { const node = selected || this.activeElement; note('clipboard', node ? node.value !== undefined && node.value !== '' ? node.value : collectText(node) : '', trigger); for (let i = 0; i < registered.length; i++) if (registered[i].type === name) callListener(registered[i].target, name, registered[i].listener); }
    else if (name === 'inserthtml') setMarkup(this.body, value, this.body);
    else if (name === 'saveas') note('save', '', toText(value), trigger);
    return true;
  }
  queryCommandSupported() { return true; }
  queryCommandEnabled() { return true; }
  hasFocus() { return true; }
  getSelection() { return selection; }
  elementFromPoint() { return this.body; }
  exitFullscreen() { return resolved(); }
  startViewTransition(call) { addTask(call); return makeAnything('transition'); }
}
for (const name of ['children', 'firstElementChild', 'lastElementChild', 'childElementCount', 'querySelector', 'querySelectorAll', 'getElementsByTagName',
  'getElementsByTagNameNS', 'getElementsByClassName']) define(Document.prototype, name, Object.getOwnPropertyDescriptor(Element.prototype, name));
define(Document.prototype, 'innerHTML', Object.getOwnPropertyDescriptor(Element.prototype, 'innerHTML'));

class Range {
  selectNode(node) { this.node = node; }
  selectNodeContents(node) { this.node = node; }
  setStart(node) { this.node = node; }
  setEnd() {}
  collapse() {}
  cloneRange() { return this; }
  deleteContents() {}
  extractContents() { return new DocumentFragment(); }
  insertNode(node) { if (this.node && this.node.appendChild) this.node.appendChild(node); }
  createContextualFragment(html) { const root = new DocumentFragment(); note('markup', html, trigger); readMarkup(html, root, true); return root; }
  getBoundingClientRect() { return { x: 0, y: 0, top: 0, left: 0, right: 0, bottom: 0, width: 0, height: 0 }; }
  getClientRects() { return []; }
  toString() { return this.node ? this.node.textContent : ''; }
}
const selection = { rangeCount: 1, isCollapsed: false, addRange(range) { selected = range.node; }, removeAllRanges() {}, selectAllChildren(node) { selected = node; }, getRangeAt: () => new Range(), collapse(node) { selected = node; }, empty() {}, toString: () => selected ? selected.textContent : '' };
function makeWalker(root, show, filter) {
  const all = [], wanted = show === undefined || show === null ? 0xffffffff : +show;
  visit(root || document, node => { if (wanted & (1 << (node.nodeType - 1))) all.push(node); });
  let place = -1;
  const accepts = node => { const check = filter && (filter.acceptNode || filter); return typeof check !== 'function' || apply(check, filter, [node]) === 1; };
  const step = () => { while (++place < all.length) if (accepts(all[place])) return all[place]; return null; };
  return { root, nextNode() { const node = step(); if (node) this.currentNode = node; return node; }, currentNode: root, firstChild() { return this.nextNode(); }, previousNode: () => place > 0 ? all[--place] : null };
}
// XPath of the simplest kind: //tag, //*[@a="b"], comment() and text().
function evaluatePath(path, root) {
  let found = [];
  const match = /\/\/?(comment\(\)|text\(\)|[\w*-]+)?(?:\[\s*(?:@([\w-]+)\s*(?:=\s*["']([^"']*)["'])?|(\d+))\s*\])?(\/(?:text\(\)|@[\w-]+))?\s*$/.exec(path);
  if (!match) lacks('document.evaluate ' + path.slice(0, 40));
  else visit(root, node => {
    if (match[1] === 'comment()') { if (node.nodeType === 8) found.push(node); }
    else if (match[1] === 'text()') { if (node.nodeType === 3) found.push(node); }
    else if (node.nodeType === 1 && (match[1] === '*' || !match[1] || node.localName === match[1].toLowerCase()) && (!match[2] || (match[2] in node.$marks && (match[3] === undefined || node.$marks[match[2]] === match[3])))) found.push(node);
  });
  if (match && match[5] === '/text()') found = found.map(node => node.firstChild).filter(each => each);
  let place = 0;
  const first = found[0] || null;
  return { singleNodeValue: first, stringValue: first ? first.textContent : '', snapshotLength: found.length, snapshotItem: i => found[i] || null, iterateNext: () => found[place++] || null, numberValue: found.length, booleanValue: !!first };
}

const document = new Document();

// The page as Python has read it: rows of [parent, kind, …].
const scriptPlaces = new NativeMap();
function loadPage(rows) {
  isLoading = true;
  const nodes = [document];
  for (const row of rows) {
    const parent = nodes[row[0]] || document, kind = row[1];
    let node;
    if (kind === 3) node = new Text(row[2]);
    else if (kind === 8) node = new Comment(row[2]);
    else { node = makeElement(row[2]); const marks = row[3]; for (const name of keysOf(marks)) node.$marks[name] = marks[name]; if (row[4]) hide(node, 'namespace', row[4]); if (row[2] === 'script') scriptPlaces.set(row[5], node); }
    nodes[nodes.length] = node;
    const into = parent.localName === 'template' ? parent.content : parent;
    into.$list[into.$list.length] = node;
    node.parentNode = into;
  }
  for (const node of nodes) {
    if (node.nodeType !== 1 || node.localName === 'script') { if (node.localName === 'script') { hide(node, 'isKnown', true); hide(node, 'isQueued', true); nameElement(node); } continue; }
    connectNode(node, false);
  }
  if (!document.documentElement) readMarkup('<html><head></head><body></body></html>', document, false);
  isLoading = false;
}
