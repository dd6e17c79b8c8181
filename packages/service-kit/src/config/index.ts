export { CONFIG_ERRORS, ConfigError, type ConfigFault } from '../errors.ts'
export { hintAt } from '../suggest.ts'
export { readNamedFile, requireNamedFile } from './files.ts'
export { type Loaded, type LoadSettings, loadConfig } from './load.ts'
export {
  Duration,
  durationOf,
  durationText,
  FilePath,
  Flag,
  LogSchema,
  listener,
  MetricsSchema,
  Name,
  OptionalList,
  optional,
  Secret,
  Text,
} from './schema.ts'
