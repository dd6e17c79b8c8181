/** A package in the document. */
export interface Component {
  readonly name: string
  readonly group?: string
  readonly version?: string
  readonly 'bom-ref': string
  readonly purl?: string
  readonly licenses?: readonly Licence[]
  readonly evidence?: { readonly licenses?: readonly Licence[] }
  readonly externalReferences?: readonly object[]
}

interface Licence {
  readonly expression?: string
  readonly license?: {
    readonly id?: string
    readonly name?: string
    /** In Base64. */
    readonly text?: { readonly content: string }
  }
}

export interface Sbom {
  readonly metadata: { readonly timestamp?: string; readonly component: Component }
  readonly components: readonly Component[]
  readonly dependencies: readonly Dependency[]
}

interface Dependency {
  readonly ref: string
  readonly dependsOn?: readonly string[]
}

/** Gives the package and the scope, if it has one. */
export const fullName = ({ group, name }: Component): string => (group ? `${group}/${name}` : name)
export const isOurs = ({ group }: Component): boolean => group === '@gatehouse'

type Locked = Readonly<Record<string, { readonly resolution: { readonly integrity: string } }>>

/** Adds from where each package comes; leaves out texts of licences, and modules that a plugin makes up. */
export function completeSbom(sbom: Sbom, locked: Locked): Sbom {
  const isVirtual = (ref: string) => ref.startsWith('VirtualComponent ')
  const epoch = process.env.SOURCE_DATE_EPOCH
  const timestamp = epoch && { timestamp: new Date(Number(epoch) * 1000).toISOString() }
  return {
    ...sbom,
    metadata: { ...timestamp, ...sbom.metadata, component: lean(sbom.metadata.component) },
    components: [
      ...sbom.components
        .filter((component) => !isVirtual(component['bom-ref']))
        .map((component) => (isOurs(component) ? lean(component) : withSource(component, locked))),
    ],
    dependencies: sbom.dependencies
      .filter(({ ref }) => !isVirtual(ref))
      .map(({ ref, dependsOn = [] }) => ({
        ref,
        dependsOn: dependsOn.filter((other) => !isVirtual(other)),
      })),
  }
}

function lean({ evidence: _, purl = '', ...component }: Component): Component {
  return { ...component, purl: purl.replace(/\?.*/, '') }
}

function withSource(component: Component, locked: Locked): Component {
  const name = fullName(component)
  const { version = '', externalReferences = [] } = component
  const [algorithm, hash = ''] = locked[`${name}@${version}`]?.resolution.integrity.split('-') ?? []
  if (algorithm !== 'sha512') throw new Error(`The lock file has no SHA-512 of ${name}@${version}.`)
  const source = lean(component)
  const distribution = {
    type: 'distribution',
    url: source.purl,
    hashes: [{ alg: 'SHA-512', content: Buffer.from(hash, 'base64').toString('hex') }],
  }
  return { ...source, externalReferences: [...externalReferences, distribution] }
}
