// Elements written as markup, and copied.

function cloneNode(node, deep, depth) {
  let copy;
  if (node.nodeType === 3) return new Text(node.data);
  if (node.nodeType === 8) return new Comment(node.data);
  if (node.nodeType === 11) copy = makeFragment();
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
