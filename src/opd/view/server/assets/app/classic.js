// Libraries that are scripts, not modules: each is loaded once, when it is first wanted.

const loading = new Map();

/** What the script at this address leaves under this name. */
export function classic(address, name) {
  if (!loading.has(address)) {
    loading.set(address, new Promise((done, failed) => {
      const script = document.createElement('script');
      script.src = address;
      script.onload = () => done(globalThis[name]);
      script.onerror = () => { loading.delete(address); failed(new Error(`${address} could not be loaded`)); };
      document.head.append(script);
    }));
  }
  return loading.get(address);
}
