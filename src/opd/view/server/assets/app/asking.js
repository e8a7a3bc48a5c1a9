// What the server is asked, and what becomes of the answer.

import { useLayoutEffect, useRef, useState } from '/assets/vendor/htm-preact.js';

/** The answer as JSON; an error is the server's sentence, or what kept it from saying one. */
export async function ask(path, { signal } = {}) {
  let answered;
  try {
    answered = await fetch(path, { signal, headers: { accept: 'application/json' } });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Error('The server does not answer. Is `opd view` still running? This page asks again.');
  }
  const body = await answered.json().catch(() => null);
  if (!answered.ok) throw Object.assign(new Error(body?.error ?? `the server answered ${answered.status} to ${path}`), { status: answered.status });
  return body;
}

/** An address of the API, its query without what is null. */
export function api(path, query = {}) {
  const kept = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== '');
  return `/api/${path}` + (kept.length ? `?${new URLSearchParams(kept)}` : '');
}

/**
 * { value, error, asking } for a path, asked again when the path or the version is another one.
 * The last answer stays until the next one is there, where it was to the same path; a null path asks nothing.
 */
export function useAsked(path, version = 0) {
  const [held, setHeld] = useState({ path: null, value: null, error: null });
  useLayoutEffect(() => { // before the picture: the way is as long as drawing it
    if (path === null) return undefined;
    const leaving = new AbortController();
    ask(path, { signal: leaving.signal }).then(
      value => setHeld({ path, value, error: null }),
      error => error.name !== 'AbortError' && setHeld(last => ({ path, value: last.path === path ? last.value : null, error })),
    );
    return () => leaving.abort();
  }, [path, version]);
  const mine = held.path === path && path !== null;
  return { value: mine ? held.value : null, error: mine ? held.error : null, asking: path !== null && !mine };
}

/**
 * Rows of a long list, a page at a time, as they come into view: `row(index)` gives the row or null, and asks for it.
 * `address(offset, limit)` is where a page is, `rows(answer)` what it holds; another `key` is another list.
 */
export function usePaged(key, address, { size = 100, rows = answer => answer.rows } = {}) {
  const pages = useRef({ key: null, held: new Map(), first: null });
  const [, redraw] = useState(0);
  if (pages.current.key !== key) pages.current = { key, held: new Map(), first: null, error: null };
  const mine = pages.current;

  const fetchPage = page => {
    if (mine.held.has(page)) return;
    mine.held.set(page, null);
    ask(address(page * size, size)).then(
      answer => { mine.held.set(page, rows(answer)); mine.first ??= answer; mine.error = null; redraw(n => n + 1); },
      error => { mine.held.delete(page); mine.error = error; redraw(n => n + 1); },
    );
  };
  useLayoutEffect(() => { fetchPage(0); }, [key]);
  return {
    answer: mine.first,
    error: mine.error,
    row: index => {
      const page = Math.floor(index / size);
      const held = mine.held.get(page);
      if (!held) fetchPage(page);
      return held?.[index % size] ?? null;
    },
  };
}
