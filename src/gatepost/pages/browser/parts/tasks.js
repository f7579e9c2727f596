// Work that waited for time or for the reader is done.

function runTasks(who) {
  let ran = 0;
  while (called < MAX_TASKS) {
    let best = -1;
    for (let i = taskPlace; i < tasks.length; i++) {
      const task = tasks[i];
      if (task && task.who === who && (best < 0 || task.at < tasks[best].at)) best = i;
      if (best >= 0 && i - best > 60) break;
    }
    if (best < 0) break;
    const task = tasks[best];
    tasks[best] = null;
    while (taskPlace < tasks.length && !tasks[taskPlace]) taskPlace++;
    called++; ran++;
    if (called - calledBefore < 5) tell('["task"]');
    if (task.at > now) now = task.at;
    attempt(task.run, who);
    if (who === 'user' && ran >= 200) break;
  }
  if (called >= MAX_TASKS) cut();
  return ran;
}
function attempt(run, who) {
  const before = trigger;
  trigger = who;
  try { return watch(run(), () => addTask(run, who)); } catch (fault) {
    const missing = findMissing(fault);
    if (missing && giveMissing(missing)) try { return run(); } catch (other) { noteError(other); } else noteError(fault);
  } finally { trigger = before; }
  return undefined;
}

// Errors of asynchronous functions: they are noted, and where a name is missing, `again` is called once it is there.
function watch(value, again) {
  if (value instanceof NativePromise) apply(nativeThen, value, [undefined, fault => {
    const missing = findMissing(fault);
    if (missing && giveMissing(missing)) again(); else noteError(fault);
  }]);
  return value;
}
function findMissing(fault) {
  try { const match = fault && fault.name === 'ReferenceError' && /^'?([\w$]{1,80})'? is not defined/.exec(fault.message); return match ? match[1] : ''; } catch (other) { return ''; }
}
