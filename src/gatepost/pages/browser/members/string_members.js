// Methods of strings that the interpreter refuses without a value. Browsers do not, and codes of a few signs take
// letters from them.

class StringMembers {
  fontcolor(value) { return writeTag(this, 'font', 'color', value); }
  fontsize(value) { return writeTag(this, 'font', 'size', value); }
  anchor(value) { return writeTag(this, 'a', 'name', value); }
  link(value) { return writeTag(this, 'a', 'href', value); }
}
function writeTag(text, name, mark, value) { return '<' + name + ' ' + mark + '="' + toText(value).replace(/"/g, '&quot;') + '">' + text + '</' + name + '>'; }
