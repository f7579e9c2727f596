// The console, which says nothing.

const SILENT = ['log', 'info', 'warn', 'error', 'debug', 'table', 'dir', 'trace', 'group', 'groupEnd', 'groupCollapsed', 'clear', 'time', 'timeEnd', 'assert', 'count', 'profile', 'profileEnd'];
function makeConsole() {
  const silent = {};
  for (let i = 0; i < SILENT.length; i++) silent[SILENT[i]] = () => undefined;
  return tag(silent, 'console');
}
