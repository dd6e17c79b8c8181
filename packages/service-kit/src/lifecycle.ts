export { reload } from './reload.ts'
export { draining, limitConnections, listenError, runApp } from './run-app.ts'
export { type BuildDeps, type ServeOptions, startService } from './start.ts'
export { type Workers, workers } from './workers/worker.ts'
