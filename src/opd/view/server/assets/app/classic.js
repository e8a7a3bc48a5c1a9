// Libraries that are scripts and styles, not modules: each is loaded once, when it is first wanted.

const loading = new Map();

/** What the script at this address leaves under this name. */
export const classic = (address, name) => loaded(address, 'script', { src: address }).then(() => globalThis[name]);

/** The style at this address holds. */
export const style = address => loaded(address, 'link', { rel: 'stylesheet', href: address });

function loaded(address, tag, how) {
  if (!loading.has(address)) {
    loading.set(address, new Promise((done, failed) => {
      const made = Object.assign(document.createElement(tag), how);
      made.onload = done;
      made.onerror = () => { loading.delete(address); failed(new Error(`${address} could not be loaded`)); };
      document.head.append(made);
    }));
  }
  return loading.get(address);
}
