// Fragments of documents.

class DocumentFragment extends Node {
  constructor() { super(11, '#document-fragment'); this.$marks = makeObject(null); }
  getElementById(id) { return findById(this, id); }
}
copyCommon(DocumentFragment.prototype);
function makeFragment() { return new DocumentFragment(); }
