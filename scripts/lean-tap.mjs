// What tap does beside running tests took a third of the time of the suite, so it is left out. Node loads this
// file before tap's own, and into test files only:
// - tap follows every promise with async hooks, to tell in which test an error was thrown that nobody caught.
//   Without them such an error ends its file, which fails as well.
// - It reads each module and its source map once more, and loads itself into every Node process that a test
//   starts, all for coverage.
import hooks from 'node:async_hooks'
import module, { syncBuiltinESMExports } from 'node:module'

const none = { enable: () => none, disable: () => none }
hooks.createHook = () => none

// The first hook that only loads is the one of coverage. Those of `t.mockImport` resolve as well.
const { registerHooks } = module
module.registerHooks = (wanted) => {
  if (wanted.resolve) return registerHooks(wanted)
  module.registerHooks = registerHooks
  syncBuiltinESMExports()
  process.setSourceMapsEnabled(false)
  // How the package process-on-spawn, which tap uses, is taken back.
  globalThis[Symbol.for('process-on-spawn@*:singletonId')]?.unwrap()
}
syncBuiltinESMExports()

// It is named there to come first, and what a test starts is not to load it.
delete process.env.NODE_OPTIONS
