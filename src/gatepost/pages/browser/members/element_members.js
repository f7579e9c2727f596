// Members of elements that few pages use.

class ElementMembers {
  get width() { return readLength(this, 'width'); }
  set width(value) { this.$marks.width = toText(value); }
  get height() { return readLength(this, 'height'); }
  set height(value) { this.$marks.height = toText(value); }
  get tagName() { return this.nodeName; }
  get namespaceURI() { return 'http://www.w3.org/1999/xhtml'; }
  get prefix() { return null; }
  get children() { return makeCollection(this.$list.filter(each => each.nodeType === 1)); }
  get childElementCount() { return this.children.length; }
  get firstElementChild() { return this.children[0] || null; }
  get lastElementChild() { const all = this.children; return all[all.length - 1] || null; }
  get attributes() { const all = keysOf(this.$marks).map(name => ({ name, value: this.$marks[name], nodeName: name, nodeValue: this.$marks[name] })); for (const each of all) all[each.name] = each; all.getNamedItem = name => all[name] || null; all.item = i => all[i]; return all; }
  get outerHTML() { return writeElement(this, 0); }
  set outerHTML(html) { setMarkup(this, html, this.parentNode || this); }
  get innerText() { return collectText(this); }
  set innerText(value) { this.textContent = value; }
  get outerText() { return collectText(this); }
  get text() { return collectText(this); }
  set text(value) { this.textContent = value; }
  get dataset() { if (!this.data_) hide(this, 'data_', makeDataset(this)); return this.data_; }
  get classList() { return makeClassList(this); }
  get srcdoc() { return this.$marks.srcdoc || ''; }
  set srcdoc(value) { this.setAttribute('srcdoc', value); }
  get data() { return this.$marks.data || ''; }
  set data(value) { this.setAttribute('data', value); }
  get action() { return this.$marks.action === undefined ? readLocation().href : resolveAddress(this.$marks.action); }
  set action(value) { this.setAttribute('action', value); }
  get defaultValue() { return this.$marks.value || ''; }
  get valueAsNumber() { return +this.value; }
  get files() { return this.localName === 'input' && this.$marks.type === 'file' ? [] : undefined; }
  get form() { return this.closest('form'); }
  get elements() { return makeCollection(selectAll(this, 'input,select,textarea,button')); }
  get options() { return makeCollection(selectAll(this, 'option')); }
  get rows() { return makeCollection(selectAll(this, 'tr')); }
  get cells() { return makeCollection(this.$list.filter(node => node.localName === 'td' || node.localName === 'th')); }
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
  attachShadow() { hide(this, 'shadow', makeFragment()); this.shadow.host = this; return this.shadow; }
  attachInternals() { return makeAnything('internals'); }
  getAttributeNS(_, name) { name = toText(name); return name in this.$marks ? this.$marks[name] : 'xlink:' + name in this.$marks ? this.$marks['xlink:' + name] : null; }
  getAttributeNode(name) { name = toText(name).toLowerCase(); return name in this.$marks ? { name, value: this.$marks[name] } : null; }
  getAttributeNames() { return keysOf(this.$marks); }
  hasAttribute(name) { return toText(name).toLowerCase() in this.$marks; }
  hasAttributes() { return keysOf(this.$marks).length > 0; }
  removeAttribute(name) { delete this.$marks[toText(name).toLowerCase()]; }
  toggleAttribute(name) { name = toText(name).toLowerCase(); if (name in this.$marks) delete this.$marks[name]; else this.$marks[name] = ''; return name in this.$marks; }
  setAttributeNS(_, name, value) { this.setAttribute(name, value); }
  setAttributeNode(node) { this.setAttribute(node.name, node.value); }
  getElementsByTagNameNS(_, name) { return makeCollection(selectAll(this, toText(name))); }
  getElementsByClassName(names) { return makeCollection(selectAll(this, toText(names).trim().split(/\s+/).map(each => '.' + each).join(''))); }
  insertAdjacentHTML(place, html) { setMarkup(this, html, /begin|end/.test(place) && /^(?:afterbegin|beforeend)$/.test(place) ? this : this.parentNode || this); }
  insertAdjacentElement(_, node) { return this.appendChild(node); }
  insertAdjacentText(_, text) { this.appendChild(new Text(text)); }
  setHTMLUnsafe(html) { this.innerHTML = html; }
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
  showPopover() { addTask(() => dispatchTo(this, Object.assign(newEvent('toggle'), { newState: 'open', oldState: 'closed' }))); }
  togglePopover() { this.showPopover(); }
  hidePopover() {}
  show() {}
  close() {}
  play() { return resolved(); }
  pause() {}
  load() {}
  canPlayType() { return ''; }
  requestFullscreen() { note('fullscreen', trigger); return resolved(); }
  getContext(kind) { return this.localName === 'canvas' ? drawingOn(this, toText(kind)) : null; }
  toDataURL() { return 'data:image/png;base64,' + BLANK; }
  toBlob(call) { call(makeBlob([viewOf(nativeAtob(BLANK))], { type: 'image/png' })); }
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
  assignedNodes() { let root = this; while (root.parentNode) root = root.parentNode; return root.host ? slice(root.host.$list) : []; }
  assignedElements() { return this.assignedNodes().filter(node => node.nodeType === 1); }
  insertRow() { return this.appendChild(makeElement('tr')); }
  insertCell() { return this.appendChild(makeElement('td')); }
}
function readLength(node, mark) {
  if (mark in node.$marks) return parseInt(node.$marks[mark], 10) || 0;
  return node.localName === 'canvas' ? mark === 'width' ? 300 : 150 : node.pixels ? node.pixels[mark] : 0;
}
