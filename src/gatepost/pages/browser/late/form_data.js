// The class FormData, which has the members of URLSearchParams.

class FormData {
  constructor(form) { hide(this, 'pairs', []); if (form && form.localName === 'form') { fillInputs(); for (const node of selectAll(form, 'input,textarea,select')) if (node.$marks.name || node.$marks.id) this.pairs.push([node.$marks.name || node.$marks.id, node.value]); } }
  toString() { return this.pairs.map(each => each[0] + '=' + (isBlob(each[1]) ? each[1].bytes : each[1])).join('&'); }
}
const params = readParamsPrototype();
const NAMES = ['get', 'getAll', 'has', 'set', 'delete', 'forEach', 'keys', 'values', 'entries'];
for (let i = 0; i < NAMES.length; i++) hide(FormData.prototype, NAMES[i], params[NAMES[i]]);
hide(FormData.prototype, Symbol.iterator, params[Symbol.iterator]);
hide(FormData.prototype, 'append', function (key, value) { this.pairs.push([toText(key), isBlob(value) ? value : toText(value)]); });
function makeFormData(form) { return new FormData(form); }
