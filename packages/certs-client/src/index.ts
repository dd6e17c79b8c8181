export { clientCommands } from './commands/commands.ts'
export { CLIENT_ERRORS } from './errors.ts'
