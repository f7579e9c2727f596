// Members of elements that many pages use.

class ElementBasicMembers {
  get innerHTML() { return writeMarkup(this, 0); }
  set innerHTML(html) { const inside = this.inner || this; inside.$list.length = 0; setMarkup(this, html, inside); }
  get style() { if (!this.look) hide(this, 'look', makeStyle(this.$marks.style || '')); return this.look; }
  set style(value) { this.style.cssText = value; }
  get content() { if (this.localName === 'meta') return this.$marks.content || ''; if (!this.inner) hide(this, 'inner', makeFragment()); return this.inner; }
  set content(value) { this.$marks.content = toText(value); }
  get href() { const text = this.$marks.href; if (this.namespace === 'svg') return { baseVal: text || '', animVal: text || '' }; return text === undefined ? '' : resolveAddress(text); }
  set href(value) { this.setAttribute('href', value); }
  get src() { return this.$marks.src === undefined ? '' : resolveAddress(this.$marks.src); }
  set src(value) { this.setAttribute('src', value); }
  get download() { return this.$marks.download || ''; }
  set download(value) { this.setAttribute('download', value); }
  get value() { return this.typed !== undefined ? this.typed : this.localName === 'textarea' ? collectText(this) : this.localName === 'select' ? readSelected(this) : this.$marks.value || ''; }
  set value(value) { hide(this, 'typed', toText(value)); }
  getAttribute(name) { name = toText(name).toLowerCase(); return name in this.$marks ? this.$marks[name] : null; }
  setAttribute(name, value) { setMark(this, toText(name).toLowerCase(), toText(value)); }
  getElementsByTagName(name) { return makeCollection(selectAll(this, toText(name))); }
  querySelector(text) { return selectAll(this, toText(text), 1)[0] || null; }
  querySelectorAll(text) { return makeCollection(selectAll(this, toText(text))); }
  matches(text) { return matchesSelector(this, toText(text)); }
  closest(text) { for (let node = this; node && node.nodeType === 1; node = node.parentNode) if (node.matches(text)) return node; return null; }
  click() { clickElement(this); }
}
