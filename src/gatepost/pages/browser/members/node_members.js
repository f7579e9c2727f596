// Members of nodes that few pages use.

class NodeMembers {
  get ownerDocument() { return document; }
  get isConnected() { return true; }
  get baseURI() { return readLocation().href; }
  get lastChild() { return this.$list[this.$list.length - 1] || null; }
  get nextSibling() { return siblingOf(this, 1, false); }
  get previousSibling() { return siblingOf(this, -1, false); }
  get nextElementSibling() { return siblingOf(this, 1, true); }
  get previousElementSibling() { return siblingOf(this, -1, true); }
  get nodeValue() { return this.nodeType === 1 ? null : this.data; }
  set nodeValue(value) { if (this.nodeType !== 1) this.data = toText(value); }
  hasChildNodes() { return this.$list.length > 0; }
  replaceChild(node, old) { this.insertBefore(node, old); return this.removeChild(old); }
  remove() { if (this.parentNode) this.parentNode.removeChild(this); }
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
