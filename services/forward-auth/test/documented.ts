import type { FastifyInstance, InjectOptions } from 'fastify'
import { documentedBy } from '../../../packages/service-kit/test/http/documented.ts'
import { describeApi } from '../src/openapi.ts'

const isDocumented = documentedBy(() => describeApi({ hasPages: true }))

/** Has each request that is injected fail when the OpenAPI document does not name its status. */
export function holdToDocument(app: FastifyInstance): void {
  const inject = app.inject.bind(app)
  const checked = async (asked: InjectOptions | string) => {
    const answer = await inject(asked)
    const { method = 'GET', url } = typeof asked === 'string' ? { url: asked } : asked
    const { statusCode: status } = answer
    if (await isDocumented(method, String(url), status)) return answer
    throw new Error(`${method} ${url} answers ${status}, which the document does not name`)
  }
  app.inject = checked as typeof inject
}
