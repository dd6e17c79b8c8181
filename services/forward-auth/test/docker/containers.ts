import type { Container } from '../../src/docker/app.ts'

export const ZONE = {
  domain: 'lab.home.arpa',
  reserved: ['auth.lab.home.arpa', 'certs.lab.home.arpa', 'id.lab.home.arpa'],
}
/** In the environment of every container and image, as Docker tells it. */
export const SECRET = 'PASSWORD=hunter2-of-the-environment'

export type Labels = Readonly<Record<string, string>>

/** What Compose writes for a service. */
export const composed = (service: string, project = 'home'): Labels => ({
  'com.docker.compose.project': project,
  'com.docker.compose.service': service,
  'com.docker.compose.config-hash': `hash of ${project} ${service}`,
  'com.docker.compose.oneoff': 'False',
})

let count = 0

/** A container as Docker tells of it, with members that are not read. */
export function containerOf(labels: Labels, changes: Partial<Container> = {}): Container {
  const number = ++count
  return {
    Id: number.toString(16).padStart(64, '0'),
    Names: [`/container-${number}`],
    ImageID: `sha256:${'a'.repeat(64)}`,
    Created: number,
    Status: 'Up 2 hours',
    Labels: labels,
    Ports: [
      { PrivatePort: 8080, Type: 'tcp' },
      { PrivatePort: 53, Type: 'udp' },
      { PrivatePort: 80, Type: 'tcp' },
    ],
    NetworkSettings: { Networks: { 'gatehouse-apps': { IPAddress: `10.7.0.${number % 250}` } } },
    ...{ State: 'running', Command: SECRET, Config: { Env: [SECRET] } },
    ...changes,
  }
}
