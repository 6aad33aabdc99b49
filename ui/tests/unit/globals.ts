/** The parts of the browser that the modules read when they are loaded. */
const globals = {
  sessionStorage: {getItem: () => null, setItem: () => {}},
  location: {hash: ''},
  addEventListener: () => {},
};
Object.assign(globalThis, globals);
