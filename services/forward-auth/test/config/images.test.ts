import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ConfigError } from '@gatehouse/service-kit/config'
import { testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import { loadForwardAuthConfig } from '../../src/config/load.ts'
import { portalOf, yamlOf } from '../app.ts'
import { ICO, JPEG, PNG, SVG } from '../pages/pictures.ts'

const FOLDER = testFolder(t)
const NO_LOGO = 'names a file that is none of PNG, SVG, WebP, JPEG'
const ABSENT = 'names a file that does not exist (ENOENT)'
const at = (file: string) => `: ${join(FOLDER, file)}`

async function load(options: string, withoutSecrets = false) {
  const file = join(FOLDER, 'config.yaml')
  await writeFile(file, yamlOf(portalOf('main', options)))
  return loadForwardAuthConfig(file, {}, { withoutSecrets })
}

async function faultsOf(options: string, withoutSecrets = false): Promise<string[]> {
  try {
    await load(options, withoutSecrets)
    return []
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return error.faults.map(({ path, message }) => `${path} ${message}`)
  }
}

const app = (name: string, icon: string) =>
  `{ name: ${name}, url: "https://${name}.example.com/", icon: ${icon} }`

t.test('images are files beside the configuration, and each fault is told at once', async (t) => {
  for (const [name, content] of Object.entries({
    'logo.svg': SVG,
    'tab.ico': ICO,
    'app.png': PNG,
    'app.jpg': JPEG,
    'text.png': 'no image',
    'large.png': Buffer.concat([PNG, Buffer.alloc(70_000)]),
  }))
    await writeFile(join(FOLDER, name), content)

  const good = `logo: logo.svg, favicon: ./tab.ico, apps: [${app('a', 'app.jpg')}, ${app('b', join(FOLDER, 'app.png'))}]`
  const [portal] = (await load(good)).value.portals
  t.match(portal, { logo: join(FOLDER, 'logo.svg'), favicon: join(FOLDER, 'tab.ico') })
  t.match(portal?.apps, [{ icon: join(FOLDER, 'app.jpg') }, { icon: join(FOLDER, 'app.png') }])

  const bad = `contact: "mailto:x", logo: text.png, favicon: app.jpg, apps: [${app('a', 'gone.png')}, ${app('b', 'large.png')}]`
  t.strictSame((await faultsOf(bad)).toSorted(), [
    `/portals/0/apps/0/icon ${ABSENT}${at('gone.png')}`,
    `/portals/0/apps/1/icon names a file of ${PNG.length + 70_000} bytes, with a limit of 65536${at('large.png')}`,
    '/portals/0/contact is neither `mailto:` with an address, an https URL nor a text',
    `/portals/0/favicon names a file that is none of PNG, SVG, ICO${at('app.jpg')}`,
    `/portals/0/logo ${NO_LOGO}${at('text.png')}`,
  ])
  t.strictSame(await faultsOf('logo: 5'), ['/portals/0/logo must be a string: put it in quotes'])
})

t.test('a machine without the files can still judge the rest', async (t) => {
  const absent = `logo: gone.svg, favicon: gone.ico, apps: [${app('a', 'gone.png')}]`
  t.equal((await load(absent, true)).absent, 3)
  t.equal((await faultsOf(absent)).length, 3)
  t.strictSame(await faultsOf(`logo: text.png, favicon: gone.ico`, true), [
    `/portals/0/logo ${NO_LOGO}${at('text.png')}`,
  ])
})
