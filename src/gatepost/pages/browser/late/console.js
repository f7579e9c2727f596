// The console, which says nothing.

const NAMES = ['log', 'info', 'warn', 'error', 'debug', 'table', 'dir', 'trace', 'group', 'groupEnd', 'groupCollapsed', 'clear', 'time', 'timeEnd', 'assert', 'count', 'profile', 'profileEnd'];
function makeConsole() {
  const silent = {};
  for (let i = 0; i < NAMES.length; i++) silent[NAMES[i]] = () => undefined;
  return tag(silent, 'console');
}
