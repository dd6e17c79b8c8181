export type { ScriptedCaOptions, ValidatedChallenge } from './testing/books.ts'
export { hurriedClock } from './testing/hurried-clock.ts'
export type { Exchange, Kind, Reply } from './testing/protocol.ts'
export { type ScriptedCa, startScriptedCa } from './testing/scripted-ca.ts'
