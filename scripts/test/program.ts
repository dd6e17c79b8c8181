import { join } from 'node:path'
import { ROOT } from './markdown.ts'

/**
 * The arguments with which Node runs a service: its source, or what images hold if `GATEHOUSE_BUNDLES` is
 * set, so that the same tests run against what ships.
 */
export function programOf(service: 'cert-service' | 'forward-auth'): readonly string[] {
  return process.env.GATEHOUSE_BUNDLES
    ? [join(ROOT, 'dist', service, 'main.js')]
    : ['--conditions=@gatehouse/source', join(ROOT, 'services', service, 'src/main.ts')]
}
