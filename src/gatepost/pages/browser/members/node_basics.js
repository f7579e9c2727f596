// Members of nodes that many pages use.

class NodeBasicMembers {
  get parentElement() { return this.parentNode && this.parentNode.nodeType === 1 ? this.parentNode : null; }
  get firstChild() { return this.$list[0] || null; }
  get textContent() { return this.nodeType === 3 || this.nodeType === 8 ? this.data : collectText(this); }
  set textContent(value) {
    if (this.nodeType === 3 || this.nodeType === 8) { this.data = toText(value); return; }
    this.$list.length = 0;
    if (value !== null && value !== '') this.appendChild(new Text(value));
    if (this.localName === 'script') queueScript(this);
  }
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
    if (place >= 0) { this.$list.splice(place, 1); node.parentNode = null; if (customs.size && typeof node.disconnectedCallback === 'function') attempt(() => node.disconnectedCallback(), trigger); }
    return node;
  }
  append(...given) { for (const each of given) this.appendChild(each && each.nodeType ? each : new Text(each)); }
}
