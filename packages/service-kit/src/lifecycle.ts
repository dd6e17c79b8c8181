export { type Loop, type Loops, loops, repeat } from './loops.ts'
export { reload } from './reload.ts'
export { draining, limitConnections, listenError, type Running, runApp } from './run-app.ts'
export { type BuildDeps, type ServeOptions, startService } from './start.ts'
