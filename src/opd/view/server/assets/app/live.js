// What changes on the disk while the pages are open. The server is asked every two seconds, while somebody looks.

import { useEffect, useState } from '/assets/vendor/htm-preact.js';
import { api, ask } from './asking.js';

const PAUSE = 2000;          // milliseconds
const LONGEST_PAUSE = 15000; // once the server is silent

const listeners = new Set();
const STRANGER = 401;        // the server was started anew, with another key

const state = { version: 0, heard: false, lost: null };
let timer = null;

export function follow() {
  document.addEventListener('visibilitychange', () => { if (!document.hidden) turn(PAUSE); });
  turn(PAUSE);
}

async function turn(pause) {
  clearTimeout(timer);
  if (document.hidden) return;
  let next = PAUSE;
  try {
    const said = await ask(api('events', { since: state.version }));
    const known = state.heard;
    const back = state.lost !== null;
    Object.assign(state, { version: said.version, heard: true, lost: null });
    if (known && (said.all || said.changed.length || said.added.length || said.gone.length)) tell(said);
    else if (back) tell({ all: true, changed: [], added: [], gone: [] });
  } catch (error) {
    state.lost = { message: error.message, stranger: error.status === STRANGER };
    next = Math.min(pause * 2, LONGEST_PAUSE);
    tell({ all: false, changed: [], added: [], gone: [] });
  }
  timer = setTimeout(turn, next, next);
}

function tell(said) {
  for (const listener of listeners) listener(said);
}

/** A number that grows when the run with this id changes; without an id, when any run does. */
export function useVersion(id = null) {
  const [version, setVersion] = useState(0);
  useEffect(() => {
    const listener = said => {
      const touched = [...said.changed, ...said.added, ...said.gone];
      if (said.all || (id === null ? touched.length : touched.includes(id))) setVersion(n => n + 1);
    };
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, [id]);
  return version;
}

/** Why nothing live comes in: { message, stranger: whether another address has to be opened }, or null. */
export function useLost() {
  const [lost, setLost] = useState(state.lost);
  useEffect(() => {
    const listener = () => setLost(state.lost);
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, []);
  return lost;
}
