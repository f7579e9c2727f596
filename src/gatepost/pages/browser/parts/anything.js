// What nobody knows, and what is given to it.

// What nobody knows: every property, call and construction of it is another one. Functions that are given to it are
// called, as a library that is not here would do; what else is given to it is noted.
function makeAnything(name, text = '', isSettled = false) {
  const kept = makeObject(null);
  const proxy = new NativeProxy(function () {}, {
    get(_, key) {
      if (key in kept) return kept[key];
      if (key === Symbol.toPrimitive) return () => text;
      if (key === Symbol.iterator) return function* () {};
      if (key === 'then' && !isSettled && text === '') return (call, other) => apply(nativeThen, resolved(makeAnything(name, text, true)), [call, other]);
      if (typeof key === 'symbol' || key === 'then' || key === 'toJSON') return undefined;
      if (key === 'toString' || key === 'valueOf') return () => text;
      if (key === 'length') return 0;
      if (key === 'prototype') return kept[key] = {};
      return kept[key] = makeAnything(name.length < 60 ? name + '.' + key : name, text);
    },
    set(_, key, value) { if (typeof key !== 'symbol') kept[key] = value; takeGiven(name + '.' + toText(key), [value]); return true; },
    has: () => true,
    apply(_, self, given) { takeGiven(name, given); return makeAnything(name.length < 60 ? name + '()' : name, text); },
    construct(_, given) { takeGiven(name, given); return makeAnything(name); },
    getPrototypeOf: () => Object.prototype, ownKeys: () => ['length', 'name', 'prototype'], deleteProperty: () => true,
  });
  return proxy;
}

// What a server answers is not known; it bears a mark, so that it is found again where the page writes or runs it.
function makeAnswer() { return makeAnything('answer', ANSWER); }
function takeGiven(name, given) {
  for (let i = 0; i < given.length && i < 12; i++) {
    const value = given[i];
    if (typeof value === 'function') addTask(() => value(makeEvent(name, window)), 'user');
    else if (typeof value === 'string') { if (value.length > 3) note('given', name, value); }
    else if (value && typeof value === 'object') takeObject(name, value, 0);
  }
}
function takeObject(name, value, depth) {
  if (isBlob(value)) { noteSave(value, value.name || ''); return; }
  let seen = 0;
  try {
    for (const key of keysOf(value)) {
      if (++seen > 30) return;
      const inner = value[key];
      if (typeof inner === 'function') addTask(() => inner(makeAnswer()), 'user');
      else if (typeof inner === 'string') { if (inner.length > 3) note('given', name + '.' + key, inner); }
      else if (inner && typeof inner === 'object' && depth < 2) takeObject(name + '.' + key, inner, depth + 1);
    }
  } catch (fault) { /* a getter of the page */ }
}
