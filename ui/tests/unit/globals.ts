/** What the modules read of the browser when they are loaded. */
const globals = {
  sessionStorage: {getItem: () => null, setItem: () => {}},
  location: {hash: ''},
  addEventListener: () => {},
};
Object.assign(globalThis, globals);
