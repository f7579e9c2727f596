// What is compiled when it is first used: the files of the folder `late`.
//
// Most pages use little of a browser, and compiling is most of what a page costs. Each late file is the body of a
// function. Its functions are known to all files by their names: a call of one compiles the file. Its classes are known
// to its own file, and to the page as names of `window`. A class whose name ends in `Members` lends its members to an
// object of another file. `source.py` makes the lists of these names. A late file is compiled after scripts of the page
// have run, so what it does at that time uses no function that a page can change.

const { classes: LATE_CLASSES, members: LATE_MEMBERS } = parseJson(lateTables);
const lateMade = Object.setPrototypeOf([], null);
function loadLate(place) {
  return lateMade[place] || (lateMade[place] = eval(lateSources[place]));
}
function later(place, names) {
  return names.split(' ').map(name => (...given) => apply(loadLate(place)[name], undefined, given));
}

// Give an object the members of a late class: functions that look for the real ones when they are called.
function lendMembers(owner, name) {
  const { place, methods, values, changing } = LATE_MEMBERS[name];
  const find = key => describe(loadLate(place)[name].prototype, key);
  for (const key of methods) hide(owner, key, function (...given) { return apply(find(key).value, this, given); });
  for (const key of values) define(owner, key, { configurable: true, get() { return apply(find(key).get, this, []); } });
  for (const key of changing) define(owner, key, { configurable: true, get() { return apply(find(key).get, this, []); }, set(value) { apply(find(key).set, this, [value]); } });
}
const LENT = 'function (...given) { return apply(find(key)';

// Give the page names whose values are made when they are first asked for.
const lateValues = makeObject(null);
function giveLate(names, make, enumerable = false) {
  for (const name of names) {
    define(window, name, { configurable: true, enumerable,
      get() { return name in lateValues ? lateValues[name] : lateValues[name] = make(name); },
      set(value) { lateValues[name] = value; } });
  }
}
