export { buildGateway, type GatewayOptions, type Route } from './gateway.ts'
