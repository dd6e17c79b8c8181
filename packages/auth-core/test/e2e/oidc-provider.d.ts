/** As much as is used here; the package brings no types. */
declare module 'oidc-provider' {
  import type { RequestListener } from 'node:http'

  interface Configuration {
    features?: {
      resourceIndicators?: {
        getResourceServerInfo(
          context: unknown,
          resource: string,
          client: { clientId: string },
        ): object
        [option: string]: unknown
      }
      [feature: string]: unknown
    }
    [option: string]: unknown
  }
  export class Provider {
    constructor(issuer: string, configuration: Configuration)
    callback(): RequestListener
  }
}
