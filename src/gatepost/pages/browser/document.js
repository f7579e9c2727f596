// The document of the stand-in browser: nodes, elements, a reader of markup, selectors, forms.
const VOID = new Set('area base br col embed hr img input link meta source track wbr param frame keygen'.split(' '));
const RAW = new Set('script style textarea title xmp iframe noembed noframes'.split(' '));

// A picture of one pixel, which stands for every drawing that is saved.
const BLANK = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII=';
const MAX_NODES = 30000;

// What other parts keep: style sheets to read, elements that were filled in, pictures that were loaded, windows of frames, files by address.
const sheets = setPrototype([], null), filled = new Set(), images = new Set(), frameWindows = new WeakMap(), objects = new NativeMap();
const PAGE = 'file:///C:/Users/Reader/Downloads/page.html';
let baseAddress = PAGE, pagePixels = makeObject(null);
let nodeCount = 0, isLoading = false, hasNewInputs = false;

class Node extends EventTarget {
  constructor(type, name) {
    super();
    if (++nodeCount > MAX_NODES) throw new RangeError('too many nodes');
    this.nodeType = type; this.nodeName = name; this.parentNode = null; this.$list = [];
  }
  get childNodes() { return this.$list; }
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
addHandlers(Node.prototype, ['touchend', 'touchmove', 'touchstart']);
lendMembers(Node.prototype, NodeMembers);
lendMembers(Node.prototype, NodeBasicMembers);

class CharacterData extends Node {
  constructor(type, name, data) { super(type, name); this.data = toText(data); }
  get length() { return this.data.length; }
  get wholeText() { return this.data; }
  substringData(from, count) { return this.data.substr(from, count); }
  splitText(place) { const rest = new Text(this.data.slice(place)); this.data = this.data.slice(0, place); return rest; }
}

class Text extends CharacterData { constructor(data) { super(3, '#text', data === undefined ? '' : data); } }

class Comment extends CharacterData { constructor(data) { super(8, '#comment', data === undefined ? '' : data); } }

// What happens when a node comes into the document: scripts run, frames and pictures load, handlers wait.
function connectNode(node, runsScripts) {
  if (node.nodeType !== 1 || node.isKnown) return;
  node.isKnown = true;
  const name = node.localName, marks = node.$marks, keys = keysOf(marks);
  if (!keys.length && name !== 'script' && name !== 'style' && name !== 'iframe' && !customs.size) return;
  if (marks.id || marks.name) nameElement(node);
  if (name === 'script' && runsScripts !== false) queueScript(node);
  for (let i = 0; i < keys.length; i++) if (keys[i][0] === 'o' && keys[i][1] === 'n') registerMark(node, keys[i], marks[keys[i]]);
  if (marks.href && isScriptLink(marks.href)) registerLink(node, marks.href);
  if (marks.action && isScriptLink(marks.action)) registerLink(node, marks.action);
  if (marks.formaction && isScriptLink(marks.formaction)) registerLink(node, marks.formaction);
  if (name === 'iframe') countFrame(node);
  if (marks.srcdoc) readMarkup(marks.srcdoc, makeFragment(), true);
  const source = marks.src || marks.data || '';
  if (source && name !== 'script') loadSource(node, source);
  if (name === 'style' && !isLoading && sheets.length < 300) sheets[sheets.length] = collectText(node);
  const custom = customs.get(marks.is || name);
  if (custom) callCustom(node, custom);
}
const SCRIPT_LINK = /^[\x00-\x20]*j[\s]*a[\s]*v[\s]*a[\s]*s[\s]*c[\s]*r[\s]*i[\s]*p[\s]*t[\s]*:/i;
// Nearly all addresses begin with another letter.
function isScriptLink(text) {
  text = toText(text);
  const first = text[0];
  return !(first > ' ' && first !== 'j' && first !== 'J') && SCRIPT_LINK.test(text.slice(0, 200));
}
const queued = setPrototype([], null);
let queuePlace = 0;

// Attributes that are properties, too.
const TEXTS = ('id name title lang dir alt rel target method enctype type placeholder htmlFor:for httpEquiv:http-equiv media charset ' +
  'accept pattern className:class accessKey coords shape label slot nonce integrity crossOrigin:crossorigin ' +
  'referrerPolicy sandbox allow scope headers autocomplete inputMode acceptCharset contentEditable').split(' ');
const FLAGS = 'disabled checked hidden async defer required readOnly multiple selected autofocus noValidate open autoplay loop muted'.split(' ');

const capitals = makeObject(null);
const writeCapitals = name => typeof name === 'string' ? capitals[name] || (capitals[name] = apply(nativeUpper, name, [])) : name.toUpperCase();
class Element extends Node {
  constructor(name) { super(1, writeCapitals(name)); this.localName = name; this.$marks = makeObject(null); }
}
lendMembers(Element.prototype, ElementMembers);
lendMembers(Element.prototype, ElementBasicMembers);
for (const each of TEXTS) {
  const place = each.indexOf(':'), key = place < 0 ? each : each.slice(0, place), mark = place < 0 ? each.toLowerCase() : each.slice(place + 1);
  define(Element.prototype, key, { configurable: true, enumerable: true,
    get() { return this.$marks[mark] === undefined ? key === 'type' && this.localName === 'input' ? 'text' : '' : this.$marks[mark]; },
    set(value) { setMark(this, mark, toText(value)); } });
}
for (const each of FLAGS) {
  const mark = each.toLowerCase();
  define(Element.prototype, each, { configurable: true, enumerable: true,
    get() { return mark in this.$marks; }, set(value) { if (value) this.$marks[mark] = ''; else delete this.$marks[mark]; } });
}

// Elements, fragments and documents have these alike.
const COMMON = ['children', 'firstElementChild', 'lastElementChild', 'childElementCount', 'querySelector', 'querySelectorAll', 'getElementsByTagName', 'getElementsByTagNameNS', 'getElementsByClassName', 'innerHTML'];
function copyCommon(owner) { for (let i = 0; i < COMMON.length; i++) define(owner, COMMON[i], describe(Element.prototype, COMMON[i])); }
const namedElements = new NativeMap();
function nameElement(node) {
  for (const name of [node.$marks.id, node.localName === 'form' || node.localName === 'img' || node.localName === 'iframe' ? node.$marks.name : undefined]) {
    if (!name || namedElements.has(name) || namedElements.size > 5000) continue;
    namedElements.set(name, node);
    if (!(name in window)) define(window, name, { configurable: true, enumerable: false, get: () => node, set(value) { define(window, name, { value, writable: true, configurable: true, enumerable: true }); } });
  }
  if (node.$marks.name && (node.localName === 'input' || node.localName === 'textarea' || node.localName === 'select' || node.localName === 'button')) {
    let form = node.parentNode;
    while (form && form.localName !== 'form') form = form.parentNode;
    if (form && !(node.$marks.name in form)) hide(form, node.$marks.name, node);
  }
  if (node.localName === 'form' && node.$marks.name && !(node.$marks.name in document)) hide(document, node.$marks.name, node);
}
function findById(root, id) {
  id = toText(id);
  let found = namedElements.get(id);
  if (found && found.$marks.id === id) return found;
  found = null;
  visit(root, node => { if (node.nodeType === 1 && node.$marks.id === id) { found = node; return false; } return true; });
  return found;
}

// Elements that have a class of their own in a browser.
const elementClasses = makeObject(null);
const CLASS_NAMES = { a: 'Anchor', form: 'Form', input: 'Input', button: 'Button', div: 'Div', span: 'Span', p: 'Paragraph', img: 'Image', iframe: 'IFrame', script: 'Script',
  style: 'Style', link: 'Link', meta: 'Meta', textarea: 'TextArea', select: 'Select', option: 'Option', canvas: 'Canvas', template: 'Template', body: 'Body', head: 'Head',
  html: 'Html', table: 'Table', td: 'TableCell', tr: 'TableRow', video: 'Video', audio: 'Audio', object: 'Object', embed: 'Embed', label: 'Label', ul: 'UList', ol: 'OList', li: 'LI',
  dialog: 'Dialog', source: 'Source', base: 'Base', h1: 'Heading', pre: 'Pre', br: 'BR', area: 'Area' };
const ELEMENT_TAGS = makeObject(null);
for (const name of keysOf(CLASS_NAMES)) ELEMENT_TAGS['HTML' + CLASS_NAMES[name] + 'Element'] = name;

class HTMLElement extends Element { constructor(name) { super(name || pendingName || 'div'); } }

class SVGElement extends Element { constructor(name) { super(name || 'svg'); } }

class HTMLUnknownElement extends HTMLElement {}
let pendingName = '';

// Return the class of an element that has one of its own, which is made when the first such element is.
function elementClassOf(name) {
  let made = elementClasses[name];
  if (made || !hasOwn(CLASS_NAMES, name)) return made;
  made = elementClasses[name] = class extends HTMLElement {};
  const full = 'HTML' + CLASS_NAMES[name] + 'Element';
  define(made, 'name', { value: full });
  tag(made.prototype, full);
  return made;
}
const customs = new NativeMap();
function makeElement(name) {
  name = apply(nativeLower, toText(name), []);
  if (name === 'input' || name === 'textarea') hasNewInputs = true;
  return new (elementClassOf(name) || HTMLElement)(name);
}
let selected = null, written = '';
function childNamed(node, name) { if (node) for (let i = 0; i < node.$list.length; i++) if (node.$list[i].localName === name) return node.$list[i]; return null; }

class Document extends Node {
  constructor() { super(9, '#document'); this.$marks = makeObject(null); this.cookie = ''; this.readyState = 'loading'; this.activeElement = null; this.currentScript = null; this.hidden = false; this.visibilityState = 'visible'; this.designMode = 'off'; this.domain = ''; this.referrer = ''; this.characterSet = this.charset = this.inputEncoding = 'UTF-8'; this.compatMode = 'CSS1Compat'; this.contentType = 'text/html'; this.doctype = { name: 'html' }; this.fullscreenEnabled = true; this.adoptedStyleSheets = []; this.lastModified = '01/01/2024 00:00:00'; }
  get documentElement() { for (let i = 0; i < this.$list.length; i++) if (this.$list[i].nodeType === 1) return this.$list[i]; return null; }
  get head() { return childNamed(this.documentElement, 'head') || this.documentElement; }
  get body() { return childNamed(this.documentElement, 'body') || childNamed(this.documentElement, 'frameset') || this.documentElement; }
  set body(node) { if (this.documentElement) this.documentElement.appendChild(node); }
  get location() { return readLocation(); }
  set location(value) { follow(value, 'location'); }
  getElementById(id) { return findById(this, id); }
  createElement(name, given) {
    const made = makeElement(name), custom = customs.size ? customs.get(given && given.is ? toText(given.is) : made.localName) : undefined;
    if (custom) { if (given && given.is) made.$marks.is = toText(given.is); upgradeNode(made, custom); }
    return made;
  }
  createTextNode(text) { return new Text(text); }
  write(...given) { writePage(given.join('')); }
}
hide(Document, 'parseHTMLUnsafe', html => parseDocument(html));
lendMembers(Document.prototype, DocumentMembers);
copyCommon(Document.prototype);
const document = new Document();

// The page as Python has read it: rows of [parent, kind, …]; a number in the place of a text is that of a long one.
const scriptPlaces = new NativeMap();
// A page has thousands of nodes, and constructors of classes call one another four deep: these do what those do.
function makeLoader(prototype) {
  const Loaded = function (type, name) { this.nodeType = type; this.nodeName = name; this.parentNode = null; this.$list = []; };
  Loaded.prototype = prototype;
  return Loaded;
}
function findMaker(written) {
  const name = apply(nativeLower, written, []);
  if (name === 'input' || name === 'textarea') hasNewInputs = true;
  return { name, capitals: writeCapitals(name), Loaded: makeLoader((elementClassOf(name) || HTMLElement).prototype) };
}
function loadPage(rows, texts) {
  isLoading = true;
  const nodes = [document], makers = makeObject(null), LoadedText = makeLoader(Text.prototype), LoadedComment = makeLoader(Comment.prototype);
  nodeCount += rows.length;
  for (let i = 0; i < rows.length; i++) {
    const row = rows[i], kind = row[1];
    let node;
    if (kind === 3) { node = new LoadedText(3, '#text'); node.data = typeof row[2] === 'number' ? texts[row[2]] : row[2]; }
    else if (kind === 8) { node = new LoadedComment(8, '#comment'); node.data = typeof row[2] === 'number' ? texts[row[2]] : row[2]; }
    else {
      const made = makers[row[2]] || (makers[row[2]] = findMaker(row[2]));
      node = new made.Loaded(1, made.capitals);
      node.localName = made.name;
      node.$marks = setPrototype(row[3], null);
      if (row[4]) hide(node, 'namespace', row[4]);
      if (row[2] === 'script') scriptPlaces.set(row[5], node);
    }
    nodes[i + 1] = node;
    const parent = nodes[row[0]] || document, into = parent.localName === 'template' ? parent.content : parent;
    into.$list[into.$list.length] = node;
    node.parentNode = into;
  }
  for (let i = 0; i < nodes.length; i++) {
    const node = nodes[i];
    if (node.nodeType !== 1) continue;
    if (node.localName === 'script') { hide(node, 'isKnown', true); hide(node, 'isQueued', true); nameElement(node); } else connectNode(node, false);
  }
  if (!document.documentElement) readMarkup('<html><head></head><body></body></html>', document, false);
  isLoading = false;
}
