// Ranges, walkers and paths in the document.

class Range {
  selectNode(node) { this.node = node; }
  selectNodeContents(node) { this.node = node; }
  setStart(node) { this.node = node; }
  setEnd() {}
  collapse() {}
  cloneRange() { return this; }
  deleteContents() {}
  extractContents() { return makeFragment(); }
  insertNode(node) { if (this.node && this.node.appendChild) this.node.appendChild(node); }
  createContextualFragment(html) { const root = makeFragment(); note('markup', html, trigger); readMarkup(html, root, true); return root; }
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
function readSelection() { return selection; }
function makeRange() { return new Range(); }
