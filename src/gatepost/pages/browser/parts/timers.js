// Timers.

let timers = 0;
const stopped = new NativeMap(), intervals = new NativeMap();
function startTimer(work, delay, given, again) {
  const number = ++timers;
  const count = intervals.get(work) || 0;
  if (again && count >= MAX_INTERVAL) return number;
  if (again) intervals.set(work, count + 1);
  const at = now + Math.min(Math.max(+delay || 0, 0), 86400000);
  const once = left => addTask(() => {
    if (stopped.has(number)) return undefined;
    if (left > 1) once(left - 1);
    return typeof work === 'function' ? apply(work, window, given) : runCode(toText(work), 'timer');
  }, trigger, again ? now + (+delay || 0) : at);
  once(again ? MAX_INTERVAL : 1);
  return number;
}
function stopTimer(number) { stopped.set(number, 1); }
