// What tap does beside running tests took a quarter of the time of the suite, so it is left out:
// - It follows every promise with async hooks, to tell in which test an error was thrown that nobody caught.
//   Without them such an error ends its file, which fails as well.
// - It loads itself into every Node process that a test starts, for coverage.
import hooks from 'node:async_hooks'
import { syncBuiltinESMExports } from 'node:module'

const none = { enable: () => none, disable: () => none }
hooks.createHook = () => none
syncBuiltinESMExports()

// How the package process-on-spawn, which tap uses, is taken back.
globalThis[Symbol.for('process-on-spawn@*:singletonId')]?.unwrap()
process.env.NODE_OPTIONS =
  process.env.NODE_OPTIONS?.replace(/"?--import=\S*processinfo\S*/, '') ?? ''
