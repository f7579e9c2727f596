// What one object lends to another.
//
// A class whose name ends in `Members` lends its members to an object of another file; they are in the folder `members`,
// which is read before the document. The other parts of a browser are in `parts`, and read after it: their functions and
// classes are known to all files by their names.

// Give an object the members of a class. Their text is that of functions of a browser.
function lendMembers(owner, lender) {
  const names = Object.getOwnPropertyNames(lender.prototype);
  for (const key of names) {
    if (key === 'constructor') continue;
    const member = describe(lender.prototype, key);
    if (member.value) { markNative(member.value, ''); hide(owner, key, member.value); } else define(owner, key, { configurable: true, get: member.get, set: member.set });
  }
}

// Give the page names whose values are made when they are first asked for.
const lateValues = makeObject(null);
function giveLate(names, make, enumerable = false) {
  for (const name of names) {
    define(window, name, { configurable: true, enumerable,
      get() { return name in lateValues ? lateValues[name] : lateValues[name] = make(name); },
      set(value) { lateValues[name] = value; } });
  }
}
