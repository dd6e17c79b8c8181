import { documentedBy } from '../../../../packages/service-kit/test/http/documented.ts'
import { describeApi } from '../../src/openapi.ts'

/** Whether the OpenAPI document of this service names a status for the route that was reached. */
export const isDocumented = documentedBy(describeApi)
