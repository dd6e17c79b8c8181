export type { ScriptedCaOptions, ValidatedChallenge } from './books.ts'
export { hurriedClock } from './hurried-clock.ts'
export type { Exchange, Kind, Reply } from './protocol.ts'
export { type ScriptedCa, startScriptedCa } from './scripted-ca.ts'
