// Members of documents that few pages use.

class DocumentMembers {
  get title() { const node = selectAll(this, 'title', 1)[0]; return node ? collectText(node) : ''; }
  set title(value) {}
  get defaultView() { return window; }
  get URL() { return readLocation().href; }
  get documentURI() { return readLocation().href; }
  get forms() { return makeCollection(selectAll(this, 'form')); }
  get images() { return makeCollection(selectAll(this, 'img')); }
  get links() { return makeCollection(selectAll(this, 'a[href]')); }
  get anchors() { return makeCollection(selectAll(this, 'a[name]')); }
  get scripts() { return makeCollection(selectAll(this, 'script')); }
  get styleSheets() { return selectAll(this, 'style').map(node => makeSheet(node)); }
  get all() { return makeCollection(selectAll(this, '*')); }
  get implementation() { return { createHTMLDocument() { const made = new Document(); readMarkup('<html><head></head><body></body></html>', made, false); return made; }, createDocument: () => new Document(), createDocumentType: () => ({}), hasFeature: () => true }; }
  get fonts() { return { ready: resolved(), load: () => resolved([]), check: () => true, add() {}, forEach() {} }; }
  get scrollingElement() { return this.documentElement; }
  get ownerDocument() { return null; }
  getElementsByName(name) { return makeCollection(selectAll(this, '[name="' + name + '"]')); }
  createElementNS(space, name) { const made = makeElement(toText(name).replace(/^.*:/, '')); if (/svg/.test(space)) hide(made, 'namespace', 'svg'); return made; }
  createComment(text) { return new Comment(text); }
  createCDATASection(text) { return new Text(text); }
  createDocumentFragment() { return makeFragment(); }
  createAttribute(name) { return { name, value: '' }; }
  createEvent() { return newEvent(''); }
  createRange() { return makeRange(); }
  createTreeWalker(root, show, filter) { return makeWalker(root, show, filter); }
  createNodeIterator(root, show, filter) { return makeWalker(root, show, filter); }
  createExpression() { lacks('document.createExpression'); return makeAnything('expression'); }
  evaluate(path, root) { return evaluatePath(toText(path), root || this); }
  importNode(node, deep) { return node.cloneNode(deep); }
  adoptNode(node) { return node; }
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
  getSelection() { return readSelection(); }
  elementFromPoint() { return this.body; }
  exitFullscreen() { return resolved(); }
  startViewTransition(call) { addTask(call); return makeAnything('transition'); }
}
