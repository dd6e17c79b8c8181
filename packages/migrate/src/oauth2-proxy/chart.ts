import { readFlags, readToml } from '../formats.ts'
import { readYamlSettings, type SourceSetting } from '../source.ts'

/** The values that are settings. The others are about the deployment, and Helm ignores those that the chart does not have. */
const SETTINGS =
  /^(config|extraArgs|extraEnv|envFrom|(alphaConfig|authenticatedEmailsFile)\.enabled)\b/
const DEPLOYMENT = /^config\.(annotations|forceLegacyConfig|requiredSecretKeys)\b/
const VARIABLE = 'OAUTH2_PROXY_'
/** What the chart gives the program as variables. */
const VARIABLES: Readonly<Record<string, string>> = {
  'config.clientID': 'client-id',
  'config.clientSecret': 'client-secret',
  'config.cookieName': 'cookie-name',
  'config.cookieSecret': 'cookie-secret',
  // A Secret of Kubernetes, which has both of them.
  'config.existingSecret': 'client-secret',
}
/** What the chart writes into the file of the program, unless `config.configFile` is that file. */
const WRITTEN: Readonly<Record<string, string>> = {
  'config.emailDomains': 'email-domain',
  'config.upstreams': 'upstream',
}

/** Whether a file has values of the Helm chart of oauth2-proxy. */
export const isChart = (text: string): boolean => /^(config|extraArgs|extraEnv):/m.test(text)

/**
 * Reads the values of the Helm chart as flags, variables and the file of the program, each of which wins over those after it.
 * What cannot be read here keeps its path as its name, which no setting has, so that nobody comes in by it.
 * @throws ConfigError CONFIG_NOT_THEIRS
 */
export async function readChart(text: string, file: string): Promise<SourceSetting[][]> {
  const values = readYamlSettings(text, file).filter(
    ({ name, values }) =>
      SETTINGS.test(name) &&
      !DEPLOYMENT.test(name) &&
      !(name.endsWith('.enabled') && values[0] === 'false'),
  )
  const valuesOf = (start: string) => values.filter(({ name }) => name.startsWith(start))
  const named = (names: Readonly<Record<string, string>>) =>
    values.flatMap((value) => {
      const name = names[value.name]
      return name === undefined ? [] : { ...value, name }
    })
  const configFile = values.find(({ name }) => name === 'config.configFile')
  const written = configFile ? await readConfigFile(configFile, file) : named(WRITTEN)
  const isKnown = ({ name }: SourceSetting) =>
    name === configFile?.name || Object.hasOwn(VARIABLES, name) || Object.hasOwn(WRITTEN, name)
  const unknown = values.filter((value) => !/^extra/.test(value.name) && !isKnown(value))
  return [
    [...valuesOf('extraArgs').flatMap(flagsOf), ...unknown],
    [...variablesOf(valuesOf('extraEnv.')), ...named(VARIABLES)],
    written,
  ]
}

/** Reads `--name=value` of a list, or `name: value` of a mapping, also as an item of a list. */
function flagsOf(value: SourceSetting): SourceSetting[] {
  const { name, spelling, line } = value
  const key = /^extraArgs\.(?:\d+\.)?(.+)$/.exec(name)?.[1]
  if (key !== undefined) return [{ ...value, name: key }]
  return value.values.flatMap((flag) =>
    readFlags(flag).map((read) => ({ ...read, name: read.spelling, spelling, line })),
  )
}

/** Reads the variables of the program. One that comes from elsewhere is unknown, unless it is a secret, whose value is not read. */
function variablesOf(values: readonly SourceSetting[]): SourceSetting[] {
  return values.flatMap((value) => {
    const index = /^extraEnv\.(\d+)\.name$/.exec(value.name)?.[1]
    const [variable = ''] = value.values
    if (index === undefined || !variable.startsWith(VARIABLE)) return []
    const name = variable.slice(VARIABLE.length).toLowerCase()
    const text = values.find((other) => other.name === `extraEnv.${index}.value`)
    if (text) return [{ ...text, name }]
    return [{ ...value, name: name.endsWith('_secret') ? name : value.spelling }]
  })
}

async function readConfigFile(value: SourceSetting, file: string): Promise<SourceSetting[]> {
  const { spelling, line, values } = value
  const settings = await readToml(values[0] ?? '', file)
  return settings.map((setting) => ({ ...setting, name: setting.spelling, spelling, line }))
}
