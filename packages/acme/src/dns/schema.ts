// What the loader of a configuration reads of a schema, beyond what TypeBox's types tell.
import { type TStringOptions, Type } from 'typebox'

/** A string that no fault ever shows; `<key>File` may name a file that holds it instead. */
export const Secret = (description: string, options: TStringOptions = {}) =>
  Type.String({ minLength: 1, description, ...options, secret: true })

/** A time span such as `30s` or `5m`, loaded as milliseconds. */
export const Duration = (description: string, fallback: string) =>
  Type.Unsafe<number>({
    type: 'string',
    pattern: '^(0|[1-9][0-9]{0,5})(ms|s|m|h|d)$',
    duration: true,
    default: fallback,
    description,
  })

/** A path; a relative one is resolved against the folder of the configuration file. */
export const FilePath = (description: string, options: TStringOptions = {}) =>
  Type.String({ minLength: 1, description, ...options, filePath: true })

export const Text = (description: string, options: TStringOptions = {}) =>
  Type.String({ minLength: 1, description, ...options })

/** The address of an API; stand-ins and sovereign clouds have others. */
export const Endpoint = (fallback: string) =>
  Type.String({ minLength: 1, default: fallback, description: 'Address of its API.' })
